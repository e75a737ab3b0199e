// Package keeper keeps a validator's weights on a ledger: once in every tempo,
// never twice, set directly or committed and revealed, whatever breaks between.
//
// The ledger's own state decides what has happened; the keeper's file holds
// only what the ledger cannot know: the plaintext of promised weights, until
// the ledger shows them in a block that stays, or can never show them.
//
// On a chain (ledger.Sequencer) a call may be on its way for as long as its era
// lasts, whatever its caller saw. The plaintext of a promise is kept for that
// long, and nothing is given while a call of the hotkey is not final. What is
// given then has the nonce after the final ones, which the chain takes once:
// two processes with one key, or one that was killed and came back, cannot
// both be taken.
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
	Genesis    string // hash of the chain's block 0; "": the ledger has none
	Netuid     uint16
	Mechanism  uint8 // of the subnet; a keeper keeps the weights of one
	Hotkey     string
	VersionKey uint64 // of the software that judges
	// Path is the file of the keeper's state (see File); its directory exists.
	// Processes may share it: a tick has it alone.
	Path string
	// Old is a file that held the state under another name. Its promises are
	// taken over where there is no file at Path; it is left as it is.
	Old string
	// Timeout bounds one look at the ledger; 0 = 30 s.
	Timeout time.Duration
	// SendTimeout bounds one call that changes the ledger: a chain takes it into a
	// block and makes that final. 0 = ten minutes, 50 blocks of 12 s.
	SendTimeout time.Duration
	// Stuck is how long the ledger may stay at one block; 0 = two minutes.
	Stuck time.Duration
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Keeper keeps the weights of one hotkey on one subnet. One goroutine uses it.
type Keeper struct {
	cfg   Config
	state state
	seq   *ledger.Sequence // of this tick; nil = the ledger numbers no calls
	final uint64           // newest block of this tick that stays
	used  bool             // a reveal was sent in this tick
	at    uint64           // newest block
	since time.Time        // when it was first seen
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

const (
	// retryBlocks is how many blocks a call whose answer was lost may still be on
	// its way, on a ledger that numbers no calls.
	retryBlocks = 2
	// revealBlocks is after how many blocks a reveal that is still on its way is sent again.
	revealBlocks = 8
	// maxRefused bounds the promises kept of calls that were refused.
	maxRefused = 32
)

// Open opens a keeper; a missing file is a new one.
func Open(cfg Config) (*Keeper, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.SendTimeout <= 0 {
		cfg.SendTimeout = 10 * time.Minute
	}
	if cfg.Stuck <= 0 {
		cfg.Stuck = 2 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l, err := OnMechanism(cfg.Ledger, cfg.Mechanism)
	if err != nil {
		return nil, err
	}
	cfg.Ledger = l
	k := &Keeper{cfg: cfg, since: cfg.Now()}
	if err := k.load(); err != nil {
		return nil, err
	}
	k.at = k.state.Newest
	return k, nil
}

// Tick looks at the ledger and does what is due: reveals what was promised,
// then sets or promises this tempo's weights, if it may. Call it every few
// blocks. Errors that are not refusals (*ledger.Error) carry agon.FaultLedger;
// after any error the next tick goes on.
func (k *Keeper) Tick(ctx context.Context, want Want) (r Report, err error) {
	unlock, err := k.lock()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := k.load(); err != nil { // another process may have been here
		return r, err
	}
	k.at = max(k.at, k.state.Newest)
	m, err := k.see(ctx)
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
	k.used = false
	revealErr := k.reveal(ctx, m, n, &r)
	if k.seq != nil && k.used { // the reveal took a nonce
		if m, err = k.see(ctx); err != nil {
			return r, errors.Join(revealErr, err)
		}
		r.Block, r.Epoch = m.Block, tempo(m)
		if n, ok = m.Neuron(k.cfg.Hotkey); !ok {
			return r, revealErr
		}
	}
	if err := k.give(ctx, m, n, want, &r); err != nil {
		return r, errors.Join(revealErr, err)
	}
	return r, revealErr
}

// see asks where the hotkey's calls stand and reads a metagraph that is not behind that.
func (k *Keeper) see(ctx context.Context) (*ledger.Metagraph, error) {
	if err := k.sequence(ctx); err != nil {
		return nil, err
	}
	m, err := k.look(ctx)
	if err != nil {
		return nil, err
	}
	if k.seq == nil {
		k.final = m.Block
	} else if m.Block < k.final {
		return nil, sick("ledger_behind", fmt.Sprintf("the ledger is behind: block %d is final and it says %d", k.final, m.Block))
	}
	return m, nil
}

// sequence asks where the hotkey's calls stand, before the metagraph is read, so
// that the metagraph shows whatever is final here.
func (k *Keeper) sequence(ctx context.Context) error {
	k.seq = nil
	s, ok := k.cfg.Ledger.(ledger.Sequencer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	seq, err := s.Sequence(ctx, k.cfg.Hotkey)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return ours("read the hotkey's nonce", err)
	}
	k.seq, k.final = &seq, seq.Final
	return nil
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

// reveal goes through the promises, oldest first. A promise is forgotten when
// what came of it is final: the ledger shows it or has it no more, and its
// extrinsic can be taken no more.
func (k *Keeper) reveal(ctx context.Context, m *ledger.Metagraph, n ledger.Neuron, r *Report) error {
	var errs []error
	var kept []promise
	for _, p := range k.state.Promises {
		done, err := k.settle(ctx, m, n, &p, r)
		if err != nil {
			errs = append(errs, err)
		}
		if !done {
			kept = append(kept, p)
		}
	}
	k.state.Promises = kept
	return errors.Join(append(errs, k.save(m))...)
}

// settle does what is due of one promise, and reports whether it may be forgotten.
func (k *Keeper) settle(ctx context.Context, m *ledger.Metagraph, n ledger.Neuron, p *promise, r *Report) (done bool, err error) {
	at := slices.IndexFunc(n.Commits, func(c ledger.WeightCommit) bool { return c.Hash == p.Hash })
	live := at >= 0
	if live {
		p.Epoch = n.Commits[at].Epoch // the block may have turned while it was sent
		p.Seen = p.Seen || n.Commits[at].Block <= k.final
	}
	due, now := p.Epoch+m.Hyper.RevealEpochs(), m.EpochIndex()
	if live && (p.Sealed != nil || now < due) {
		p.Gone, p.Told = 0, false
		return false, nil // it waits; what is sealed the ledger opens
	}
	if live && now == due {
		p.Gone, p.Told = 0, false
		if k.seq != nil && k.seq.Pending && p.Revealed > 0 && m.Block < p.Revealed+revealBlocks {
			return false, nil // the reveal is on its way
		}
		p.Revealed, k.used = m.Block, true
		seen, err := k.send(ctx, *p)
		if err != nil || seen == 0 {
			return false, err
		}
		r.Actions = append(r.Actions, ActionRevealed)
		p.Gone, p.Told = seen, true
		return k.seq == nil, nil
	}
	if p.Gone == 0 {
		p.Gone = m.Block
	}
	// Equal weights that an earlier promise revealed do not reveal one that may still come.
	coming := !p.Seen && k.final < p.until()
	shown := !live && !coming && shows(m, n, *p)
	if shown && p.Sealed == nil && !p.Told {
		r.Actions = append(r.Actions, ActionRevealed)
		p.Told = true
	}
	switch {
	case k.final < p.Gone || coming: // the block that says so may be retracted; its extrinsic may be on its way
		return false, nil
	case p.Sealed == nil && shown:
		return true, nil
	case !p.Seen && !shown && (p.Epoch == now && (p.Sealed != nil || !given(m, n)) || p.Refused || k.state.has(p.Epoch)):
		return true, nil // it never arrived: its tempo makes another, or has
	case p.Sealed != nil:
		action, note := k.opened(ctx, m, n, *p)
		r.Actions, r.Notes = append(r.Actions, action), append(r.Notes, note)
	default:
		r.Actions = append(r.Actions, ActionLost)
	}
	return true, nil
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

// send reveals p and reads back in which block the ledger shows it.
func (k *Keeper) send(ctx context.Context, p promise) (block uint64, err error) {
	call, cancel := context.WithTimeout(ctx, k.cfg.SendTimeout)
	err = k.cfg.Ledger.RevealWeights(call, k.cfg.Netuid, k.cfg.Hotkey, p.Weights, p.Salt)
	cancel()
	if err != nil {
		return 0, ours("reveal weights", err)
	}
	m, err := k.look(ctx)
	if err != nil {
		return 0, err
	}
	n, ok := m.Neuron(k.cfg.Hotkey)
	if !ok || !shows(m, n, p) {
		return 0, sick("reveal_unseen", "the ledger took a reveal and does not show its weights")
	}
	return m.Block, nil
}

// SetVersion changes the version key of weights that are given from now on; what
// is promised is revealed with the key it was promised with.
func (k *Keeper) SetVersion(key uint64) { k.cfg.VersionKey = key }

// give sets or promises the weights of this tempo, once.
func (k *Keeper) give(ctx context.Context, m *ledger.Metagraph, n ledger.Neuron, want Want, r *Report) error {
	if given(m, n) || k.marked(m, n, r.Epoch) {
		r.Done = true
		return nil
	}
	switch {
	case k.seq != nil && k.seq.Pending:
		r.Notes = append(r.Notes, "a call of this hotkey is on its way: weights wait until it is final")
		return nil
	case k.seq == nil && m.Block < k.state.Tried+retryBlocks && k.state.Tried > 0:
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
	var made *promise
	if p.Call == ledger.CallCommitWeights {
		x, err := k.promise(ctx, m, w, r.Epoch)
		if err != nil {
			return err
		}
		k.state.Promises = append(k.state.Promises, x)
		made = &k.state.Promises[len(k.state.Promises)-1]
		send, action = func(ctx context.Context) error {
			if x.Sealed != nil {
				return k.timelocks().CommitSealed(ctx, k.cfg.Netuid, k.cfg.Hotkey, *x.Sealed)
			}
			return k.cfg.Ledger.CommitWeights(ctx, k.cfg.Netuid, k.cfg.Hotkey, x.Hash)
		}, ActionCommitted
	}
	if err := k.save(m); err != nil {
		return err
	}
	var dies uint64 // of what was sent; 0 = nothing, as far as the ledger says
	call, cancel := context.WithTimeout(ctx, k.cfg.SendTimeout)
	err = send(ledger.OnSending(call, func(s ledger.Sending) error {
		if k.seq != nil && s.Nonce != k.seq.Next {
			return errOther
		}
		dies = max(dies, s.Dies)
		if made == nil {
			return nil
		}
		made.Until = max(made.Until, s.Dies)
		return k.save(m)
	}))
	cancel()
	return k.sent(m, n, r, action, made, dies, err)
}

// errOther says that the hotkey's next nonce was taken while weights were made ready.
var errOther = errors.New("another process uses this hotkey at the same time")

// sent writes down what came of a call that gave weights.
func (k *Keeper) sent(m *ledger.Metagraph, n ledger.Neuron, r *Report, action Action, made *promise, dies uint64, err error) error {
	var refusal *ledger.Error
	unsent := k.seq != nil && dies == 0
	switch {
	case err == nil:
		k.state.Given, k.state.Tried = mark{r.Epoch, n.RegisteredAt, true}, 0
		r.Actions, r.Done = append(r.Actions, action), true
		return k.save(m)
	case errors.As(err, &refusal) || unsent:
		k.state.Tried = 0
		if made != nil && (k.seq == nil || unsent) { // it certainly did not happen
			k.state.Promises = k.state.Promises[:len(k.state.Promises)-1]
		} else if made != nil { // the block that says so, or a copy elsewhere, may yet turn out otherwise
			made.Refused = true
			k.state.forget()
		}
		if refusal == nil {
			return errors.Join(ours("give weights", err), k.save(m))
		}
		return errors.Join(fmt.Errorf("give weights: %w", err), k.save(m))
	case k.seq == nil:
		return ours("give weights", err)
	}
	return &agon.Error{
		Code: "ledger_unavailable", Status: http.StatusBadGateway, Fault: agon.FaultLedger, Err: err,
		Message: fmt.Sprintf("give weights: they were sent and it is not known what came of it; the chain may take them before block %d. What was promised is kept: %v", dies, err),
		Mend:    "run it again: nothing is sent twice",
	}
}

// marked reports whether the keeper gave this tempo's weights itself. Where they
// are promised on a chain the mark holds while the extrinsic may be taken;
// then the commits that the chain shows decide.
func (k *Keeper) marked(m *ledger.Metagraph, n ledger.Neuron, epoch uint64) bool {
	if k.state.Given != (mark{epoch, n.RegisteredAt, true}) {
		return false
	}
	if k.seq == nil || !m.Hyper.CommitReveal {
		return true
	}
	return slices.ContainsFunc(k.state.Promises, func(p promise) bool {
		return p.Epoch == epoch && !p.Refused && (p.Seen || k.final < p.until())
	})
}

// timelocks is the ledger's side of timelocked weights; nil = it has none.
func (k *Keeper) timelocks() ledger.TimelockCommitter {
	t, _ := k.cfg.Ledger.(ledger.TimelockCommitter)
	return t
}

// promise makes a promise of w: a timelock where the ledger opens those, else a salted hash.
func (k *Keeper) promise(ctx context.Context, m *ledger.Metagraph, w ledger.Weights, epoch uint64) (promise, error) {
	p := promise{Weights: w, Epoch: epoch, Tried: m.Block, Until: m.Block + retryBlocks}
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
	p.Hash, err = ledger.CommitHash(k.cfg.Hotkey, k.cfg.Netuid+ledger.MechanismStep*uint16(k.cfg.Mechanism), w, p.Salt)
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
// set since: the same weights of an earlier tempo are not a reveal.
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

// ours puts the fault of an error that is not a refusal on the ledger.
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
