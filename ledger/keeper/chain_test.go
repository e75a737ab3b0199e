package keeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
)

// chain is the embedded ledger behind what a chain puts before it: a pool with
// nonces and eras, blocks that are made later, and a head that is final later.
type chain struct {
	*world
	r    *rand.Rand
	lag  uint64
	life uint64 // blocks that an extrinsic lives
	// views are the metagraphs of blocks; what is read is that of the final head,
	// or of the newest.
	views   map[uint64]*ledger.Metagraph
	nonces  map[uint64]uint64 // by block
	pool    []*sentCall
	inBlock bool
	commits map[uint64]int         // promises taken, by epoch
	taken   map[ledger.Hash]uint64 // and their epochs
	shown   map[uint64]bool        // epochs of promises that were revealed
	hot     string
	// die is asked at each step; an error is that of a process that was killed there.
	die func(step string) error
}

type sentCall struct {
	nonce, dies uint64
	hash        ledger.Hash // of a commit
	of          uint64      // the promise of a reveal
	run         func() error
	block       uint64 // that it is in; 0 = none
	err         error
}

func newChain(t *testing.T, seed, lag uint64) *chain {
	t.Helper()
	w := newWorld(t, func(h *ledger.Hyperparameters) {
		h.Tempo, h.WeightsRateLimit, h.CommitReveal = 60, 1, true
	}, 1)
	c := &chain{
		world: w, r: rand.New(rand.NewPCG(seed, lag)), lag: lag, life: 32, views: map[uint64]*ledger.Metagraph{}, nonces: map[uint64]uint64{},
		commits: map[uint64]int{}, taken: map[ledger.Hash]uint64{}, shown: map[uint64]bool{}, hot: w.validator(1, "v"), die: func(string) error { return nil },
	}
	c.views[w.block()] = w.graph(1)
	return c
}

func (c *chain) final() uint64 { return c.block() - min(c.block(), c.lag) }

// pass makes a block. Now and then it takes nothing from the pool.
func (c *chain) pass() {
	c.t.Helper()
	nonce := c.nonces[c.block()]
	c.step(1)
	if c.r.IntN(3) > 0 {
		for _, x := range c.pool {
			if x.block > 0 || x.nonce != nonce || c.block() >= x.dies {
				continue
			}
			x.block, x.err = c.block(), x.run()
			nonce++
			if x.err == nil && x.hash != (ledger.Hash{}) {
				epoch := c.graph(1).EpochIndex()
				c.commits[epoch]++
				c.taken[x.hash] = epoch
			} else if x.err == nil {
				c.shown[x.of] = true
			}
		}
	}
	c.nonces[c.block()], c.views[c.block()] = nonce, c.graph(1)
}

func (c *chain) Sequence(context.Context, string) (ledger.Sequence, error) {
	if err := c.die("sequence"); err != nil {
		return ledger.Sequence{}, err
	}
	s := ledger.Sequence{Final: c.final(), Next: c.nonces[c.final()]}
	s.Pending = c.next() != s.Next
	return s, nil
}

// next is the nonce after those in blocks and in the pool.
func (c *chain) next() uint64 {
	n := c.nonces[c.block()]
	for _, x := range c.pool {
		if x.nonce == n && x.block == 0 && c.block()+1 < x.dies {
			n++
		}
	}
	return n
}

func (c *chain) Metagraph(context.Context, uint16) (*ledger.Metagraph, error) {
	if err := c.die("read"); err != nil {
		return nil, err
	}
	if c.inBlock {
		return c.views[c.block()], nil
	}
	return c.views[c.final()], nil
}

// submit sends a call and waits until it is final, while blocks pass.
func (c *chain) submit(ctx context.Context, hash ledger.Hash, of uint64, run func() error) error {
	if err := c.die("before the announcement"); err != nil {
		return err
	}
	x := &sentCall{nonce: c.next(), dies: c.final() + c.life, hash: hash, of: of, run: run}
	if err := ledger.Announce(ctx, ledger.Sending{Nonce: x.nonce, Dies: x.dies}); err != nil {
		return err
	}
	if err := c.die("before it is sent"); err != nil {
		return err
	}
	c.pool = append(c.pool, x)
	for {
		if err := c.die("on its way"); err != nil {
			return err
		}
		if x.block > 0 && (c.inBlock || x.block <= c.final()) {
			return x.err
		}
		if c.final() >= x.dies {
			return errors.New("it died")
		}
		c.pass()
	}
}

func (c *chain) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	return c.submit(ctx, hash, 0, func() error { return c.local.CommitWeights(context.WithoutCancel(ctx), netuid, hotkey, hash) })
}

func (c *chain) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	hash, err := ledger.CommitHash(hotkey, netuid, w, salt)
	if err != nil {
		return err
	}
	return c.submit(ctx, ledger.Hash{}, c.taken[hash], func() error { return c.local.RevealWeights(context.WithoutCancel(ctx), netuid, hotkey, w, salt) })
}

func (c *chain) keeper() *Keeper {
	c.t.Helper()
	k, err := Open(Config{
		Ledger: c, Genesis: "0x01", Netuid: 1, Hotkey: c.hot, Path: filepath.Join(c.dir, File("0x01", 1, 0, c.hot)),
		Now: func() time.Time { return time.Unix(int64(c.block())*12, 0) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// promised reports whether the file has the plaintext of a promise.
func (c *chain) promised(hash ledger.Hash) bool {
	return slices.ContainsFunc(c.keeper().state.Promises, func(p promise) bool {
		got, err := ledger.CommitHash(c.hot, 1, p.Weights, p.Salt)
		return err == nil && got == hash
	})
}

// TestKilledOnAChain kills keepers at random steps, on chains whose finality lags
// by 0 to 20 blocks: no plaintext of a promise that waits is lost, no tempo is
// promised twice, and the promises are revealed.
func TestKilledOnAChain(t *testing.T) {
	kills, steps := 0, map[string]int{}
	for _, inBlock := range []bool{false, true} {
		for lag := uint64(0); lag <= 20; lag += 2 {
			c := newChain(t, lag, lag)
			c.inBlock = inBlock
			c.die = func(step string) error {
				often := 40
				if step == "on its way" || step == "before it is sent" {
					often = 12
				}
				if c.r.IntN(often) > 0 {
					return nil
				}
				kills++
				steps[step]++
				return errKilled
			}
			k := c.keeper()
			for c.block() < 600 {
				c.pass()
				if _, err := k.Tick(t.Context(), toOwner); err != nil {
					k = c.keeper() // it was killed there, or is started again
				}
				n, _ := c.graph(1).Neuron(c.hot)
				for _, x := range n.Commits {
					if !c.promised(x.Hash) {
						t.Fatalf("lag %d, in block %v: block %d: the plaintext of a promise of epoch %d is lost", lag, inBlock, c.block(), x.Epoch)
					}
				}
			}
			revealed := 0
			for epoch, n := range c.commits {
				if n != 1 {
					t.Errorf("lag %d, in block %v: %d promises in epoch %d", lag, inBlock, n, epoch)
				}
				if c.shown[epoch] {
					revealed++
				}
			}
			// The last one waits; a death may cost one tempo more, late in it.
			if len(c.commits) < 8 || revealed < len(c.commits)-3 {
				t.Errorf("lag %d, in block %v: %d tempos promised, %d revealed, of 10", lag, inBlock, len(c.commits), revealed)
			}
			if n := len(c.keeper().state.Promises); n > 8 {
				t.Errorf("lag %d: %d promises are kept at the end", lag, n)
			}
		}
	}
	t.Logf("%d kills: %v", kills, steps)
	if kills < 200 {
		t.Errorf("%d kills", kills)
	}
	for _, step := range []string{"sequence", "read", "before the announcement", "before it is sent", "on its way"} {
		if steps[step] == 0 {
			t.Errorf("none was killed at %q", step)
		}
	}
}

// TestAnswerAfterTheDeadline gives a call less time than finality takes: the
// promise is kept, nothing is sent twice, and it is revealed. A second run while
// the first call is on its way changes nothing.
func TestAnswerAfterTheDeadline(t *testing.T) {
	c := newChain(t, 1, 3)
	c.pass()
	c.die = func(step string) error {
		if step == "on its way" && len(c.pool) == 1 {
			return context.DeadlineExceeded
		}
		return nil
	}
	var coded *agon.Error
	_, err := c.keeper().Tick(t.Context(), toOwner)
	if !errors.As(err, &coded) || coded.Fault != agon.FaultLedger || len(c.pool) != 1 {
		t.Fatalf("the first run: %v, %d sent", err, len(c.pool))
	}
	r, err := c.keeper().Tick(t.Context(), toOwner)
	if err != nil || len(r.Actions) > 0 || len(r.Notes) != 1 || len(c.pool) != 1 || len(c.keeper().state.Promises) != 1 {
		t.Fatalf("the second run: %+v %v, %d sent", r, err, len(c.pool))
	}
	var actions []Action
	for c.block() < 100 {
		c.pass()
		r, err := c.keeper().Tick(t.Context(), toOwner)
		if err != nil {
			t.Fatal(err)
		}
		actions = append(actions, r.Actions...)
	}
	if c.commits[0] != 1 || !c.shown[0] || slices.Contains(actions, ActionLost) {
		t.Errorf("promises %v, revealed %v, actions %v", c.commits, c.shown, actions)
	}
}

// TestTwoProcesses: keepers with files of their own and one key, as on two
// machines: the second takes the nonce of the first, or waits for it.
func TestTwoProcesses(t *testing.T) {
	c := newChain(t, 2, 4)
	for c.block() < 12 {
		c.pass()
	}
	other := c.keeper()
	other.cfg.Path = filepath.Join(c.dir, "other.json")
	first := true
	c.die = func(step string) error {
		if step == "before the announcement" && first {
			first = false // the other one is quicker
			if _, err := other.Tick(t.Context(), toOwner); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	k := c.keeper()
	if _, err := k.Tick(t.Context(), toOwner); !errors.Is(err, errOther) || len(k.state.Promises) != 0 {
		t.Errorf("the slower one: %v, %d promises", err, len(k.state.Promises))
	}
	if r, err := k.Tick(t.Context(), toOwner); err != nil || !r.Done {
		t.Errorf("afterwards: %+v %v", r, err)
	}
	if c.commits[0] != 1 {
		t.Errorf("promises %v", c.commits)
	}
	// One file is used by one process at a time.
	unlock, err := c.keeper().lock()
	if err != nil {
		t.Fatal(err)
	}
	var coded *agon.Error
	if _, err := k.Tick(t.Context(), toOwner); !errors.As(err, &coded) || coded.Code != "keeper_busy" {
		t.Errorf("two at once: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Tick(t.Context(), toOwner); err != nil {
		t.Error(err)
	}
}

// TestFilesOfChains: one hotkey on the same netuid of two chains has two files,
// and the promises of a file of the older form are taken over.
func TestFilesOfChains(t *testing.T) {
	names := map[string]bool{}
	for _, genesis := range []string{"0x01", "0x02"} {
		for _, mechanism := range []uint8{0, 1} {
			for _, netuid := range []uint16{3, 4} {
				names[File(genesis, netuid, mechanism, "5F")] = true
			}
		}
	}
	if len(names) != 8 {
		t.Errorf("%d names: %v", len(names), names)
	}
	c := newChain(t, 3, 0)
	k := c.keeper()
	for c.block() < 10 && len(k.state.Promises) == 0 {
		c.pass()
		if _, err := k.Tick(t.Context(), toOwner); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(c.dir, "new.json")
	over, err := Open(Config{Ledger: c, Genesis: "0x01", Netuid: 1, Hotkey: c.hot, Path: path, Old: k.cfg.Path})
	if err != nil || len(over.state.Promises) != 1 || over.state.Newest != 0 {
		t.Fatalf("taken over: %+v %v", over, err)
	}
	if _, err := Open(Config{Ledger: c, Genesis: "0x02", Netuid: 1, Hotkey: c.hot, Path: k.cfg.Path}); err == nil {
		t.Error("the file of another chain was opened")
	}
}
