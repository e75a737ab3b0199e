// Package keeper keeps a validator's weights on a ledger: once in every tempo,
// never twice, set directly or committed and revealed, whatever breaks between.
//
// The ledger's own state decides what has happened; the keeper's file holds
// only what the ledger cannot know: the plaintext of promised weights, until
// the ledger shows them.
package keeper

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
)

// Ledger is what a keeper needs.
type Ledger interface {
	Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error)
	SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error
	ledger.WeightCommitter
}

// Config configures a keeper.
type Config struct {
	Ledger     Ledger
	Netuid     uint16
	Hotkey     string
	VersionKey uint64 // of the software that judges
	// Path is the file of the keeper's state; its directory exists. One keeper at a time has it.
	Path string
	// Timeout bounds one call of the ledger; 0 = 30 s.
	Timeout time.Duration
	// Stuck is how long the ledger may stay at one block; 0 = two minutes.
	Stuck time.Duration
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Keeper keeps the weights of one hotkey on one subnet. One goroutine uses it.
type Keeper struct {
	cfg   Config
	state state
	at    uint64    // newest block
	since time.Time // when it was first seen
}

// Action is what a tick did.
type Action string

// Actions.
const (
	ActionSet       Action = "set"
	ActionCommitted Action = "committed"
	ActionRevealed  Action = "revealed"
	ActionLost      Action = "lost" // a promise that was not revealed in its epoch: the tempo is without new weights
)

// Report is what came of a tick.
type Report struct {
	Block   uint64
	Epoch   uint64
	Actions []Action
	// Notes say what came of promises that are gone.
	Notes []string
	// Done says that this tempo has its weights, or their promise.
	Done bool
	// Plan says why not, when not.
	Plan *ledger.Plan
}

// Want says which weights the validator wants, given the metagraph of now.
// Empty uids say that it wants none to be set yet.
type Want func(m *ledger.Metagraph) (uids, values []uint16, err error)

// retryBlocks is how many blocks a call whose answer was lost may still be on its way.
const retryBlocks = 2

// Open opens a keeper; a missing file is a new one.
func Open(cfg Config) (*Keeper, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Stuck <= 0 {
		cfg.Stuck = 2 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	k := &Keeper{cfg: cfg, since: cfg.Now()}
	if err := k.load(); err != nil {
		return nil, err
	}
	k.at = k.state.Newest
	return k, nil
}

// Tick looks at the ledger and does what is due: reveals what was promised,
// then sets or promises this tempo's weights, if it may. Call it every few
// blocks. Errors that are no refusals (*ledger.Error) carry agon.FaultLedger;
// after any error the next tick goes on.
func (k *Keeper) Tick(ctx context.Context, want Want) (r Report, err error) {
	m, err := k.look(ctx)
	if err != nil {
		return r, err
	}
	r.Block, r.Epoch = m.Block, tempo(m)
	n, ok := m.Neuron(k.cfg.Hotkey)
	if !ok {
		p := ledger.PlanWeights(m, k.cfg.Hotkey, k.cfg.VersionKey)
		r.Plan = &p
		return r, nil
	}
	revealErr := k.reveal(ctx, m, n, &r)
	if err := k.give(ctx, m, n, want, &r); err != nil {
		return r, errors.Join(revealErr, err)
	}
	return r, revealErr
}

// look reads the metagraph and doubts it: a ledger that fell back or stands
// still must not make a validator think that a tempo is over, or not.
func (k *Keeper) look(ctx context.Context) (*ledger.Metagraph, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	m, err := k.cfg.Ledger.Metagraph(ctx, k.cfg.Netuid)
	if err != nil {
		return nil, ours("read the metagraph", err)
	}
	now := k.cfg.Now()
	switch {
	case m.Block < k.at:
		return nil, sick("ledger_behind", fmt.Sprintf("the ledger is behind: it was at block %d and says %d", k.at, m.Block))
	case m.Block > k.at:
		k.at, k.since = m.Block, now
	case now.Sub(k.since) > k.cfg.Stuck:
		return nil, sick("ledger_stuck", fmt.Sprintf("the ledger has stood at block %d for %v", m.Block, now.Sub(k.since).Truncate(time.Second)))
	}
	return m, nil
}

// reveal goes through the promises, oldest first. What the ledger shows is
// forgotten here; what it does not show stays in the file.
func (k *Keeper) reveal(ctx context.Context, m *ledger.Metagraph, n ledger.Neuron, r *Report) error {
	var errs []error
	var kept []promise
	for _, p := range k.state.Promises {
		at := slices.IndexFunc(n.Commits, func(c ledger.WeightCommit) bool { return c.Hash == p.Hash })
		live := at >= 0
		if live {
			p.Epoch = n.Commits[at].Epoch // the block may have turned while it was sent
		}
		due, now := p.Epoch+m.Hyper.RevealEpochs(), m.EpochIndex()
		switch {
		case p.Sealed != nil && live:
			kept = append(kept, p) // the ledger opens it
		case p.Sealed != nil && m.Block < p.Tried+retryBlocks:
			kept = append(kept, p) // it may still be on its way
		case p.Sealed != nil && p.Epoch == now:
			// It never arrived: this tempo makes another.
		case p.Sealed != nil:
			action, note := k.opened(ctx, m, n, p)
			r.Actions, r.Notes = append(r.Actions, action), append(r.Notes, note)
		case live && now < due:
			kept = append(kept, p)
		case live && now == due:
			shown, err := k.send(ctx, p)
			if err != nil {
				errs = append(errs, err)
			}
			if !shown {
				kept = append(kept, p)
				continue
			}
			r.Actions = append(r.Actions, ActionRevealed)
		case !live && shows(m, n, p):
			r.Actions = append(r.Actions, ActionRevealed)
		case !live && m.Block < p.Tried+retryBlocks:
			kept = append(kept, p) // it may still be on its way
		case !live && p.Epoch == now && !given(m, n):
			// It never arrived: this tempo makes another.
		default:
			r.Actions = append(r.Actions, ActionLost)
		}
	}
	k.state.Promises = kept
	return errors.Join(append(errs, k.save(m))...)
}

// opened says what came of a timelocked promise that the ledger has no more: it
// shows the weights, or they are lost. What was committed is opened as the
// ledger does it, so that a loss is known to be ours, the ledger's or the network's.
func (k *Keeper) opened(ctx context.Context, m *ledger.Metagraph, n ledger.Neuron, p promise) (Action, string) {
	what := fmt.Sprintf("weights of epoch %d, sealed to round %d", p.Epoch, p.Sealed.Round)
	var got ledger.Weights
	err := ledger.ErrNoTimelocks
	if t := k.timelocks(); t != nil {
		call, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
		got, err = t.OpenWeights(call, k.cfg.Hotkey, *p.Sealed)
		cancel()
	}
	same := err == nil && slices.Equal(got.UIDs, p.Weights.UIDs) && slices.Equal(got.Values, p.Weights.Values) && got.VersionKey == p.Weights.VersionKey
	shown := shows(m, n, p)
	switch {
	case shown && same:
		return ActionRevealed, what + ": revealed, and the commitment opens to them"
	case shown && err != nil:
		return ActionRevealed, what + ": revealed; the commitment was not opened here: " + err.Error()
	case shown:
		return ActionRevealed, what + ": revealed, though the commitment opens to other weights"
	case err != nil:
		return ActionLost, what + ": not revealed; the commitment does not open: " + err.Error()
	case !same:
		return ActionLost, what + ": not revealed; the commitment opens to other weights"
	}
	return ActionLost, what + ": not revealed, though the commitment opens to them: the ledger refused them, or had the round too late"
}

// send reveals p and reads back whether the ledger shows it.
func (k *Keeper) send(ctx context.Context, p promise) (shown bool, err error) {
	call, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	err = k.cfg.Ledger.RevealWeights(call, k.cfg.Netuid, k.cfg.Hotkey, p.Weights, p.Salt)
	cancel()
	if err != nil {
		return false, ours("reveal weights", err)
	}
	m, err := k.look(ctx)
	if err != nil {
		return false, err
	}
	n, ok := m.Neuron(k.cfg.Hotkey)
	if !ok || !shows(m, n, p) {
		return false, sick("reveal_unseen", "the ledger took a reveal and does not show its weights")
	}
	return true, nil
}

// give sets or promises the weights of this tempo, once.
func (k *Keeper) give(ctx context.Context, m *ledger.Metagraph, n ledger.Neuron, want Want, r *Report) error {
	if given(m, n) || k.state.Given == (mark{r.Epoch, n.RegisteredAt, true}) {
		r.Done = true
		return nil
	}
	if m.Block < k.state.Tried+retryBlocks && k.state.Tried > 0 {
		return nil
	}
	p := ledger.PlanWeights(m, k.cfg.Hotkey, k.cfg.VersionKey)
	r.Plan = &p
	if !p.Ready {
		return nil
	}
	uids, values, err := want(m)
	if err != nil {
		return fmt.Errorf("decide weights: %w", err)
	}
	if len(uids) == 0 {
		return nil
	}
	w := ledger.Weights{UIDs: uids, Values: values, VersionKey: k.cfg.VersionKey}
	// What is to be sent is on disk before it is sent.
	k.state.Tried = m.Block
	send, action := func(ctx context.Context) error { return k.cfg.Ledger.SetWeights(ctx, k.cfg.Netuid, k.cfg.Hotkey, w) }, ActionSet
	if p.Call == ledger.CallCommitWeights {
		made, err := k.promise(ctx, m, w, r.Epoch)
		if err != nil {
			return err
		}
		k.state.Promises = append(k.state.Promises, made)
		send, action = func(ctx context.Context) error {
			if made.Sealed != nil {
				return k.timelocks().CommitSealed(ctx, k.cfg.Netuid, k.cfg.Hotkey, *made.Sealed)
			}
			return k.cfg.Ledger.CommitWeights(ctx, k.cfg.Netuid, k.cfg.Hotkey, made.Hash)
		}, ActionCommitted
	}
	if err := k.save(m); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	err = send(call)
	cancel()
	var refusal *ledger.Error
	if errors.As(err, &refusal) { // it certainly did not happen
		k.state.Tried = 0
		if action == ActionCommitted {
			k.state.Promises = k.state.Promises[:len(k.state.Promises)-1]
		}
		return errors.Join(fmt.Errorf("give weights: %w", err), k.save(m))
	}
	if err != nil {
		return ours("give weights", err)
	}
	k.state.Given, k.state.Tried = mark{r.Epoch, n.RegisteredAt, true}, 0
	r.Actions, r.Done = append(r.Actions, action), true
	return k.save(m)
}

// timelocks is the ledger's side of timelocked weights; nil = it has none.
func (k *Keeper) timelocks() ledger.TimelockCommitter {
	t, _ := k.cfg.Ledger.(ledger.TimelockCommitter)
	return t
}

// promise makes a promise of w: a timelock where the ledger opens those, else a salted hash.
func (k *Keeper) promise(ctx context.Context, m *ledger.Metagraph, w ledger.Weights, epoch uint64) (promise, error) {
	p := promise{Weights: w, Epoch: epoch, Tried: m.Block}
	if t := k.timelocks(); t != nil {
		call, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
		s, err := t.SealWeights(call, m, k.cfg.Hotkey, w)
		cancel()
		if err == nil {
			p.Sealed, p.Hash = &s, blake2b.Sum256(s.Data)
			return p, nil
		}
		if !errors.Is(err, ledger.ErrNoTimelocks) {
			return p, ours("seal weights", err)
		}
	}
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return promise{}, fmt.Errorf("make salt: %w", err)
	}
	p.Salt = make([]uint16, len(b)/2)
	for i := range p.Salt {
		p.Salt[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	var err error
	p.Hash, err = ledger.CommitHash(k.cfg.Hotkey, k.cfg.Netuid, w, p.Salt)
	return p, err
}

// given reports whether the ledger itself says that n gave weights in this tempo.
func given(m *ledger.Metagraph, n ledger.Neuron) bool {
	if m.Hyper.CommitReveal { // what is committed in a tempo stays open in it
		return slices.ContainsFunc(n.Commits, func(c ledger.WeightCommit) bool { return c.Epoch == m.EpochIndex() })
	}
	return n.LastUpdate > n.RegisteredAt && n.LastUpdate >= m.Epoch.LastStep // a registration counts as an update
}

// tempo is the index of the tempo that weights given now belong to. Where an
// epoch is put off, commits count to the next one already, weights do not.
func tempo(m *ledger.Metagraph) uint64 {
	if m.Hyper.CommitReveal {
		return m.EpochIndex()
	}
	return m.Epoch.Index
}

// shows reports whether the ledger holds what p promised as the weights of n,
// set since: the same weights of an earlier tempo are no reveal.
func shows(m *ledger.Metagraph, n ledger.Neuron, p promise) bool {
	for _, row := range m.Weights {
		if row.UID == n.UID {
			return (row.Block == 0 || row.Block > p.Tried) && slices.Equal(row.UIDs, p.Weights.UIDs) && slices.Equal(row.Values, ledger.MaxUpscale(p.Weights.Values))
		}
	}
	return false
}

func sick(code, message string) error {
	return &agon.Error{Code: code, Status: http.StatusBadGateway, Message: message, Mend: "see that the ledger runs and is in step", Fault: agon.FaultLedger}
}

// ours puts the fault of an error that is no refusal on the ledger.
func ours(what string, err error) error {
	var refusal *ledger.Error
	var coded *agon.Error
	if errors.As(err, &refusal) || errors.As(err, &coded) && coded.Fault == agon.FaultLedger {
		return fmt.Errorf("%s: %w", what, err)
	}
	return &agon.Error{Code: "ledger_unavailable", Status: http.StatusBadGateway, Message: what, Mend: "it is tried again", Fault: agon.FaultLedger, Err: err}
}

// Waiting reports whether promises wait for their reveal.
func (k *Keeper) Waiting() bool { return len(k.state.Promises) > 0 }
