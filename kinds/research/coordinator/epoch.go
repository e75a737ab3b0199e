package coordinator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/research/merkle"
)

// Package is one hotkey's claim of an epoch (spec/bitsota.md 6.1). Amount is
// cumulative: a claim transfers what was not claimed before.
type Package struct {
	Epoch     uint64        `json:"epoch"`
	Index     uint32        `json:"index"`
	Hotkey    string        `json:"hotkey"`
	Recipient string        `json:"recipient_coldkey"`
	Address   string        `json:"recipient_address"`
	Amount    uint64        `json:"amount"`
	Units     uint64        `json:"amount_units"`
	Transfer  uint64        `json:"transfer_rao"`
	Below     bool          `json:"below_transfer_floor"`
	Note      string        `json:"note,omitempty"`
	Proof     []merkle.Hash `json:"proof"`
	Root      merkle.Hash   `json:"root"`
	OZProof   []merkle.Hash `json:"oz_proof"`
	OZRoot    merkle.Hash   `json:"oz_root"`
}

// Recipient is where a hotkey's rewards go.
type Recipient struct {
	Hotkey  string `json:"hotkey"`
	Coldkey string `json:"recipient_coldkey"`
	Address string `json:"coldkey_address"`
	At      Time   `json:"updated_at"`
}

// SetRecipient stores where a hotkey's rewards go from the next epoch on. The
// caller has checked the signature.
func (c *Coordinator) SetRecipient(ctx context.Context, hotkey, coldkey string) (*Recipient, error) {
	if _, err := auth.ParseSS58(coldkey); err != nil {
		return nil, refuse(422, "bad_coldkey", "recipient_coldkey: %v", err).with("field", "recipient_coldkey")
	}
	out := &Recipient{Hotkey: hotkey, Coldkey: coldkey, Address: coldkey, At: Time{c.now()}}
	body, err := encode(out)
	if err != nil {
		return nil, err
	}
	d := store.Doc{ID: hotkey, Owner: hotkey, Ref: coldkey, Status: "set", At: out.At.Time, Body: body}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.InsertDoc(tableRecipients, d); !errors.Is(err, store.ErrConflict) {
			return err
		}
		return tx.SetDoc(tableRecipients, d, "set")
	})
	return out, err
}

// RecipientOf returns where a hotkey's rewards go.
func (c *Coordinator) RecipientOf(ctx context.Context, hotkey string) (*Recipient, error) {
	var out Recipient
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		d, err := tx.Doc(tableRecipients, hotkey)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("recipient of hotkey", hotkey)
		}
		if err != nil {
			return err
		}
		out, err = decode[Recipient](d)
		return err
	})
	return &out, err
}

// maxEpochKey bounds the key of an epoch, in bytes.
const maxEpochKey = 200

// Publish closes an epoch: it shares the budget out by the snapshot, adds it to
// what each hotkey had, and stores the evidence and every claim. Epochs are
// numbered from 0 and never change. With a key, the epoch of an earlier call with
// the same key is returned: a job that is tried again pays once.
func (c *Coordinator) Publish(ctx context.Context, key string) (*merkle.Evidence, error) {
	if len(key) > maxEpochKey {
		return nil, refuse(422, "key_too_long", "the key has %d bytes, at most %d", len(key), maxEpochKey)
	}
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	earned := map[string]uint64{}
	for _, x := range snap.Competitions {
		for _, hotkey := range slices.Sorted(maps.Keys(x.Credits)) {
			// Rounded down: the shares together never pass the budget.
			earned[hotkey] += uint64(float64(snap.Pool.EpochBudget) * x.Weight * x.Credits[hotkey] * (1 - 1e-12))
		}
	}
	var out *merkle.Evidence
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if key != "" {
			same, err := tx.Docs(tableEpochs, store.DocFilter{Ref: key, Limit: 1})
			if err != nil {
				return err
			}
			if len(same) > 0 {
				e, err := decode[merkle.Evidence](same[0])
				out = &e
				return err
			}
		}
		n, err := tx.CountDocs(tableEpochs, store.DocFilter{})
		if err != nil {
			return err
		}
		before := &merkle.Evidence{}
		if n > 0 {
			d, err := tx.Doc(tableEpochs, strconv.FormatInt(n-1, 10))
			if err != nil {
				return err
			}
			if *before, err = decode[merkle.Evidence](d); err != nil {
				return err
			}
		}
		out = &merkle.Evidence{
			Version: merkle.EvidenceVersion, Epoch: uint64(n), Profile: merkle.ProfileInk, Budget: snap.Pool.EpochBudget, Floor: snap.Pool.TransferFloor, Previous: before.Root,
		}
		if err := c.fillClaims(tx, out, before, earned); err != nil {
			return err
		}
		return storeEpoch(tx, out, key, c.now)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fillClaims makes the claims of an epoch, by hotkey in the order of their bytes.
func (c *Coordinator) fillClaims(tx *store.Tx, e, before *merkle.Evidence, earned map[string]uint64) error {
	had := map[string]merkle.Claim{}
	for _, x := range before.Claims {
		had[x.Hotkey] = x
	}
	hotkeys := slices.Concat(slices.Collect(maps.Keys(had)), slices.Collect(maps.Keys(earned)))
	slices.Sort(hotkeys)
	for _, hotkey := range slices.Compact(hotkeys) {
		amount := had[hotkey].Amount + earned[hotkey]
		if amount == 0 {
			continue
		}
		recipient, err := recipientOf(tx, hotkey)
		if err != nil {
			return err
		}
		x := merkle.Claim{
			Index: uint32(len(e.Claims)), Hotkey: hotkey, Recipient: recipient, Amount: amount, Earned: earned[hotkey], Transfer: earned[hotkey],
		}
		// What the claim before was too small to transfer is still due.
		if had[hotkey].Below {
			x.Transfer += had[hotkey].Transfer
		}
		x.Below = x.Transfer > 0 && x.Transfer < e.Floor
		for _, k := range []struct {
			address string
			to      *string
		}{{hotkey, &x.Public}, {recipient, &x.RecPublic}} {
			pub, err := auth.ParseSS58(k.address)
			if err != nil {
				return fmt.Errorf("publish epoch: %w", err)
			}
			*k.to = "0x" + hex.EncodeToString(pub[:])
		}
		e.Claims = append(e.Claims, x)
		e.Total += amount
	}
	if len(e.Claims) == 0 {
		return refuse(409, "nothing_to_publish", "nobody has earned anything yet: an epoch has at least one claim")
	}
	e.LeafCount = len(e.Claims)
	ink, oz, err := e.Trees()
	if err != nil {
		return fmt.Errorf("publish epoch: %w", err)
	}
	e.Root, e.OZRoot = ink.Root(), oz.Root()
	e.ListHash, err = merkle.HashClaims(e.Claims)
	return err
}

// recipientOf is the recipient that a hotkey has set, else the coldkey that it
// submitted under.
func recipientOf(tx *store.Tx, hotkey string) (string, error) {
	d, err := tx.Doc(tableRecipients, hotkey)
	if err == nil {
		return d.Ref, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	rows, err := tx.Docs(tableSubmissions, store.DocFilter{Owner: hotkey, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return hotkey, nil
	}
	s, err := decode[storedSubmission](rows[0])
	return s.Coldkey, err
}

func storeEpoch(tx *store.Tx, e *merkle.Evidence, key string, now clock) error {
	body, err := encode(e)
	if err != nil {
		return err
	}
	id := strconv.FormatUint(e.Epoch, 10)
	if err := tx.InsertDoc(tableEpochs, store.Doc{ID: id, Ref: key, Status: "published", At: now(), Body: body}); err != nil {
		return err
	}
	ink, oz, err := e.Trees()
	if err != nil {
		return err
	}
	for i, x := range e.Claims {
		p := Package{
			Epoch: e.Epoch, Index: x.Index, Hotkey: x.Hotkey, Recipient: x.Recipient, Address: x.Recipient, Amount: x.Amount, Units: x.Amount,
			Transfer: x.Transfer, Below: x.Below, Root: e.Root, OZRoot: e.OZRoot,
		}
		if x.Below {
			p.Note = fmt.Sprintf("below_transfer_floor: %d rao are due and a transfer is at least %d: they stay due and add to the next epoch", x.Transfer, e.Floor)
		}
		if p.Proof, err = ink.Proof(i); err != nil {
			return err
		}
		if p.OZProof, err = oz.Proof(i); err != nil {
			return err
		}
		if body, err = encode(p); err != nil {
			return err
		}
		if err := tx.InsertDoc(tablePackages, store.Doc{ID: id + "/" + x.Hotkey, Owner: x.Hotkey, Ref: id, Status: "published", At: now(), Body: body}); err != nil {
			return err
		}
	}
	return nil
}

// Epochs lists the numbers of the published epochs.
func (c *Coordinator) Epochs(ctx context.Context) ([]int, error) {
	last, err := c.lastEpoch(ctx)
	out := []int{}
	for i := range last + 1 {
		out = append(out, i)
	}
	return out, err
}

// Epoch returns the evidence of an epoch; -1 is the newest.
func (c *Coordinator) Epoch(ctx context.Context, n int) (*merkle.Evidence, error) {
	if n < 0 {
		last, err := c.lastEpoch(ctx)
		if err != nil {
			return nil, err
		}
		n = last
	}
	var out merkle.Evidence
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		d, err := tx.Doc(tableEpochs, strconv.Itoa(n))
		if errors.Is(err, store.ErrNotFound) {
			return refuse(404, "no_epoch", "epoch %d is not published", n)
		}
		if err != nil {
			return err
		}
		out, err = decode[merkle.Evidence](d)
		return err
	})
	return &out, err
}

// PackageOf returns a hotkey's claim of an epoch; -1 is the newest.
func (c *Coordinator) PackageOf(ctx context.Context, n int, hotkey string) (*Package, error) {
	if n < 0 {
		last, err := c.lastEpoch(ctx)
		if err != nil {
			return nil, err
		}
		n = last
	}
	var out Package
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		d, err := tx.Doc(tablePackages, strconv.Itoa(n)+"/"+hotkey)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(404, "no_claim", "hotkey %.60s has no claim in epoch %d", hotkey, n)
		}
		if err != nil {
			return err
		}
		out, err = decode[Package](d)
		return err
	})
	return &out, err
}
