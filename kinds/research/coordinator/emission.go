package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/research/merkle"
	kr "github.com/agon-arena/agon/kinds/research/play"
)

// Emission roots (spec/bitsota.md 6.2): a lane names tasks, and an epoch of it
// shares an amount in equal parts among the accepted submissions that named an
// address and were not paid before. Nothing of it goes to a chain from here.

// LanePolicy is how a lane shares.
type LanePolicy struct {
	Version    int    `json:"version"`
	Source     string `json:"source"`
	Allocation string `json:"allocation"`
	// EpochAmount is what one epoch shares out, in the token's units, decimal.
	EpochAmount string `json:"epoch_amount_units"`
}

// The one policy that is understood.
const (
	laneSource     = "accepted_submissions"
	laneAllocation = "equal_per_accepted_submission"
	// laneDaily is the original's target a day: 7200 tokens of 18 decimals.
	laneDaily = "7200000000000000000000"
)

// Lane is a subnet of the later era.
type Lane struct {
	Subnet     string      `json:"subnet_id"`
	Title      string      `json:"title"`
	Policy     LanePolicy  `json:"policy"`
	PolicyHash merkle.Hash `json:"policy_hash"`
	Lane       merkle.Hash `json:"offchain_lane_id"`
	Offchain   string      `json:"offchain_subnet_id"`
	Tasks      []string    `json:"task_ids"` // empty: all tasks
	CreatedAt  Time        `json:"created_at"`
}

var (
	laneForm    = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,79}$`)
	addressForm = lazyregexp.New(`^0x[0-9a-fA-F]{40}$`)
)

// MakeLane opens a lane.
func (c *Coordinator) MakeLane(ctx context.Context, n Lane) (*Lane, error) {
	bad := func(field, format string, args ...any) error {
		return refuse(422, "invalid_subnet", "%s: %s", field, fmt.Sprintf(format, args...)).with("field", field)
	}
	p := &n.Policy
	if p.Version == 0 && p.Source == "" && p.Allocation == "" {
		p.Version, p.Source, p.Allocation = 1, laneSource, laneAllocation
	}
	if p.EpochAmount == "" {
		p.EpochAmount = laneDaily
	}
	amount, ok := new(big.Int).SetString(p.EpochAmount, 10)
	switch {
	case !laneForm().MatchString(n.Subnet):
		return nil, bad("subnet_id", "want 1 to 80 of a-z, 0-9, . _ -")
	case checkText("title", n.Title, 255) != nil || checkText("offchain_subnet_id", n.Offchain, 255) != nil:
		return nil, bad("title", "want at most 255 bytes of text")
	case p.Version != 1 || p.Source != laneSource || p.Allocation != laneAllocation:
		return nil, bad("policy", "want version 1, source %s, allocation %s", laneSource, laneAllocation)
	case !ok || amount.Sign() <= 0 || len(p.EpochAmount) > 60 || amount.String() != p.EpochAmount:
		return nil, bad("policy.epoch_amount_units", "want a whole number above 0 of at most 60 digits")
	case len(n.Tasks) > 100:
		return nil, bad("task_ids", "at most 100")
	}
	for _, id := range n.Tasks {
		if c.taskOfID(id) == nil {
			return nil, bad("task_ids", "no task %.80q", id)
		}
	}
	if n.Tasks == nil {
		n.Tasks = []string{}
	}
	var err error
	if n.PolicyHash, err = merkle.PolicyHash(n.Policy); err != nil {
		return nil, err
	}
	n.Lane, n.CreatedAt = merkle.LaneOf(n.Subnet), Time{c.now()}
	body, err := encode(n)
	if err != nil {
		return nil, err
	}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		err := tx.InsertDoc(tableLanes, store.Doc{ID: n.Subnet, Ref: n.Lane.String(), Status: "open", At: n.CreatedAt.Time, Body: body})
		if errors.Is(err, store.ErrConflict) {
			return refuse(409, "duplicate_subnet", "subnet %s is there already", n.Subnet)
		}
		return err
	})
	return &n, err
}

// lane finds a lane by subnet or by the lane's hash.
func lane(tx *store.Tx, name string) (l Lane, err error) {
	if strings.HasPrefix(name, "0x") {
		rows, err := tx.Docs(tableLanes, store.DocFilter{Ref: name, Limit: 1})
		if err != nil {
			return l, err
		}
		if len(rows) == 0 {
			return l, notFound("subnet", name)
		}
		return decode[Lane](rows[0])
	}
	d, err := tx.Doc(tableLanes, name)
	if errors.Is(err, store.ErrNotFound) {
		return l, notFound("subnet", name)
	}
	if err != nil {
		return l, err
	}
	return decode[Lane](d)
}

// Emit publishes the root of an epoch of a lane. Publishing it again answers
// what was published: an epoch never changes.
func (c *Coordinator) Emit(ctx context.Context, name string, epoch uint64, proofs bool) (*merkle.Emission, error) {
	var out merkle.Emission
	err := c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		l, err := lane(tx, name)
		if err != nil {
			return err
		}
		id := emissionID(l, epoch)
		if d, err := tx.Doc(tableEmissions, id); err == nil {
			out, err = decode[merkle.Emission](d)
			return err
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		out = merkle.Emission{Bundle: merkle.EmissionBundle{Epoch: epoch, Subnet: merkle.EmissionSubnet{
			ID: l.Subnet, Title: l.Title, PolicyHash: l.PolicyHash, Lane: l.Lane, Offchain: l.Offchain,
		}}}
		if err := c.fillEmission(tx, l, &out.Bundle); err != nil {
			return err
		}
		if err := out.Seal(c.now()); err != nil {
			return fmt.Errorf("publish emission: %w", err)
		}
		body, err := encode(out)
		if err != nil {
			return err
		}
		for _, w := range out.Bundle.Why {
			err := tx.InsertDoc(tablePaid, store.Doc{ID: l.Subnet + "/" + w.Evidence.Submission, Ref: id, Status: "paid", At: c.now(), Body: []byte("{}")})
			if err != nil {
				return err
			}
		}
		return tx.InsertDoc(tableEmissions, store.Doc{ID: id, Ref: l.Subnet, Status: "published", At: c.now(), Body: body})
	})
	if err != nil {
		return nil, err
	}
	if proofs {
		if out.Proofs, err = out.ProofsOf(); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

func emissionID(l Lane, epoch uint64) string { return fmt.Sprintf("%s/%d", l.Subnet, epoch) }

// fillEmission lists the claims of an epoch, oldest submission first.
func (c *Coordinator) fillEmission(tx *store.Tx, l Lane, b *merkle.EmissionBundle) error {
	rows, err := tx.Docs(tableSubmissions, store.DocFilter{Status: kr.StatusAccepted, Oldest: true})
	if err != nil {
		return err
	}
	for _, d := range rows {
		if len(l.Tasks) > 0 && !slices.Contains(l.Tasks, d.Task) {
			continue
		}
		s, err := decode[storedSubmission](d)
		if err != nil {
			return err
		}
		address := rewardAddress(s.Extras)
		if address == "" {
			continue
		}
		for _, table := range []struct {
			name store.DocTable
			id   string
		}{{tablePaid, l.Subnet + "/" + s.ID}, {tableCanaries, s.ID}} {
			if _, err = tx.Doc(table.name, table.id); !errors.Is(err, store.ErrNotFound) {
				break
			}
		}
		if err == nil {
			continue // paid before, or a canary
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if len(b.Claims) == merkle.MaxEmissionClaims {
			break // the rest is for the next epoch
		}
		g := merkle.EmissionGrounds{Submission: s.ID, Digest: s.PatchDigest}
		if g.Consensus, err = c.grounds(tx, &s); err != nil {
			return err
		}
		i := len(b.Claims)
		x := merkle.EmissionClaim{Index: i, Epoch: b.Epoch, Address: strings.ToLower(address), Lane: l.Lane, PolicyHash: l.PolicyHash, Subnet: l.Subnet}
		if x.Reward, err = g.RewardHash(); err != nil {
			return err
		}
		b.Claims, b.Why = append(b.Claims, x), append(b.Why, merkle.EmissionWhy{Index: i, Evidence: g})
	}
	if len(b.Claims) == 0 {
		return refuse(409, "nothing_to_publish", "no accepted submission with a reward_address waits to be paid")
	}
	amount, ok := new(big.Int).SetString(l.Policy.EpochAmount, 10)
	if !ok {
		return fmt.Errorf("lane %s: its amount is not a number", l.Subnet)
	}
	share := amount.Div(amount, big.NewInt(int64(len(b.Claims)))).String() // rounded down
	if share == "0" {
		return refuse(409, "amount_too_small", "the epoch's amount does not give each of %d claims a unit", len(b.Claims))
	}
	for i := range b.Claims {
		b.Claims[i].Amount = share
	}
	return nil
}

// rewardAddress is where a submission wants to be paid, "" where it says nothing usable.
func rewardAddress(extras json.RawMessage) string {
	var x struct {
		Reward string `json:"reward_address"`
		Miner  string `json:"evm_miner_address"`
	}
	if len(extras) == 0 || json.Unmarshal(extras, &x) != nil {
		return ""
	}
	for _, a := range []string{x.Reward, x.Miner} {
		if addressForm().MatchString(a) {
			return a
		}
	}
	return ""
}

// grounds is how a submission was accepted: by peers, or by replays.
func (c *Coordinator) grounds(tx *store.Tx, s *storedSubmission) (merkle.EmissionConsensus, error) {
	out := merkle.EmissionConsensus{Status: s.Status}
	t := c.taskOfID(s.TaskID)
	if t == nil {
		return out, notFound("task", s.TaskID)
	}
	if m := t.pub.CompetitionMode; m == kr.ModePeer || m == kr.ModeSelfValidation {
		b, _, err := c.ballot(tx, t, s)
		out.AcceptedCount, out.CommitteeCount, out.CommitteeSize = b.AcceptedCount, b.AcceptedCount+b.RejectedCount, t.pub.MinPeerEvaluations
		if p := t.pub.SelfValidation; p != nil && m == kr.ModeSelfValidation {
			out.CommitteeSize = p.CommitteeSize
		}
		return out, err
	}
	list, err := c.verifications(tx, s.ID)
	for _, v := range list {
		if v.Duel || !v.Counted {
			continue
		}
		out.CommitteeCount++
		if v.Status == kr.StatusAccepted {
			out.AcceptedCount++
		}
	}
	out.CommitteeSize = t.pub.Rules.Agree
	return out, err
}

// Emission returns the evidence of an epoch of a lane.
func (c *Coordinator) Emission(ctx context.Context, name string, epoch uint64) (*merkle.Emission, error) {
	var out merkle.Emission
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		l, err := lane(tx, name)
		if err != nil {
			return err
		}
		d, err := tx.Doc(tableEmissions, emissionID(l, epoch))
		if errors.Is(err, store.ErrNotFound) {
			return refuse(404, "no_epoch", "epoch %d of subnet %s is not published", epoch, l.Subnet)
		}
		if err != nil {
			return err
		}
		out, err = decode[merkle.Emission](d)
		return err
	})
	return &out, err
}

// EmissionRoots lists published roots, newest first; subnet may be empty.
func (c *Coordinator) EmissionRoots(ctx context.Context, subnet string, limit int) ([]merkle.EmissionRoot, error) {
	out := []merkle.EmissionRoot{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableEmissions, store.DocFilter{Ref: subnet, Limit: limit})
		if err != nil {
			return err
		}
		for _, d := range rows {
			e, err := decode[merkle.Emission](d)
			if err != nil {
				return err
			}
			out = append(out, e.Root)
		}
		return nil
	})
	return out, err
}
