package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
)

// world is a stepped ledger with validators, and the trouble that a test makes.
type world struct {
	t      *testing.T
	local  *local.Ledger
	dir    string
	before func(call string) error // runs before a write reaches the ledger
	after  func(call string) error // runs after; its error hides the answer
	// given counts accepted weights and promises by subnet, hotkey and epoch.
	given map[string]int
}

func newWorld(t *testing.T, change func(*ledger.Hyperparameters), netuids ...uint16) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), given: map[string]int{}}
	l, err := local.Open(t.Context(), filepath.Join(w.dir, "l.db"), local.Config{Stepped: true, Preset: local.PresetLocal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w.local = l
	h, err := local.Hyperparameters(local.PresetLocal)
	if err != nil {
		t.Fatal(err)
	}
	change(&h)
	owner := local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold"), Hyper: &h}
	for _, netuid := range netuids {
		if err := l.EnsureSubnet(t.Context(), netuid, owner); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// validator registers a hotkey with stake and a permit.
func (w *world) validator(netuid uint16, name string) string {
	w.t.Helper()
	hot := ledgertest.Key(w.t, name)
	if _, err := w.local.Register(w.t.Context(), netuid, hot, hot); err != nil {
		w.t.Fatal(err)
	}
	if err := w.local.SetValidator(w.t.Context(), netuid, hot, true, 1_000_000_000); err != nil {
		w.t.Fatal(err)
	}
	return hot
}

func (w *world) open(netuid uint16, hot string) *Keeper {
	w.t.Helper()
	now := time.Unix(0, 0)
	k, err := Open(Config{
		Ledger: w, Netuid: netuid, Hotkey: hot, Path: filepath.Join(w.dir, fmt.Sprintf("%d-%s.json", netuid, hot)),
		Now: func() time.Time { return now.Add(time.Duration(w.block()) * 12 * time.Second) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

func (w *world) block() uint64 {
	b, err := w.local.Block(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) step(n uint64) {
	w.t.Helper()
	if _, err := w.local.Step(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) graph(netuid uint16) *ledger.Metagraph {
	w.t.Helper()
	m, err := w.local.Metagraph(w.t.Context(), netuid)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) write(call string, netuid uint16, hotkey string, f func() error) error {
	if w.before != nil {
		if err := w.before(call); err != nil {
			return err
		}
	}
	err := f()
	if err == nil && call != "reveal" {
		w.given[fmt.Sprintf("%d %s %d", netuid, hotkey, w.graph(netuid).EpochIndex())]++
	}
	if w.after != nil {
		if aerr := w.after(call); aerr != nil {
			return aerr
		}
	}
	return err
}

func (w *world) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	if w.before != nil {
		if err := w.before("read"); err != nil {
			return nil, err
		}
	}
	return w.local.Metagraph(ctx, netuid)
}

func (w *world) SetWeights(ctx context.Context, netuid uint16, hotkey string, x ledger.Weights) error {
	return w.write("set", netuid, hotkey, func() error { return w.local.SetWeights(ctx, netuid, hotkey, x) })
}

func (w *world) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	return w.write("commit", netuid, hotkey, func() error { return w.local.CommitWeights(ctx, netuid, hotkey, hash) })
}

func (w *world) RevealWeights(ctx context.Context, netuid uint16, hotkey string, x ledger.Weights, salt []uint16) error {
	return w.write("reveal", netuid, hotkey, func() error { return w.local.RevealWeights(ctx, netuid, hotkey, x, salt) })
}

// toOwner wants all weight on uid 0, and something that changes from block to block.
func toOwner(m *ledger.Metagraph) ([]uint16, []uint16, error) {
	return []uint16{0, 1}, []uint16{65535, uint16(m.Block)}, nil
}

func tick(t *testing.T, k *Keeper) Report {
	t.Helper()
	r, err := k.Tick(t.Context(), toOwner)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSetsOncePerTempo(t *testing.T) {
	w := newWorld(t, func(h *ledger.Hyperparameters) { h.Tempo, h.WeightsRateLimit = 20, 5 }, 1)
	w.step(1)
	hot := w.validator(1, "v")
	k := w.open(1, hot)
	if r := tick(t, k); r.Done || r.Plan == nil || r.Plan.Ready || r.Plan.Earliest != 6 {
		t.Errorf("just registered: %+v", r)
	}
	sets := 0
	for w.block() < 110 {
		w.step(1)
		r := tick(t, k)
		sets += len(r.Actions)
		if w.block() >= 6 && !r.Done {
			t.Errorf("block %d: %+v", r.Block, r)
		}
		if w.block()%7 == 0 {
			k = w.open(1, hot) // a restart
		}
	}
	if sets != 6 { // in the epochs from block 0, 20, 40, 60, 80 and 100
		t.Errorf("set %d times: %v", sets, w.given)
	}
}

// swallowing takes reveals and does nothing with them while lost is set.
type swallowing struct {
	*world
	lost bool
}

func (l *swallowing) RevealWeights(ctx context.Context, netuid uint16, hotkey string, x ledger.Weights, salt []uint16) error {
	if l.lost {
		return nil
	}
	return l.world.RevealWeights(ctx, netuid, hotkey, x, salt)
}

// Weights that stay the same from tempo to tempo: what the ledger shows of an
// earlier reveal does not make a lost one good.
func TestSameWeightsAreNoReveal(t *testing.T) {
	w := newWorld(t, func(h *ledger.Hyperparameters) { h.Tempo, h.WeightsRateLimit, h.CommitReveal = 20, 1, true }, 1)
	hot := w.validator(1, "v")
	l := &swallowing{world: w}
	k, err := Open(Config{
		Ledger: l, Netuid: 1, Hotkey: hot, Path: filepath.Join(w.dir, "k.json"),
		Now: func() time.Time { return time.Unix(int64(w.block())*12, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	same := func(*ledger.Metagraph) ([]uint16, []uint16, error) { return []uint16{0, 1}, []uint16{65535, 7}, nil }
	unseen := 0
	// until ticks at each block until an action, and returns those of that tick.
	until := func(want Action) []Action {
		t.Helper()
		for range 100 {
			w.step(1)
			r, err := k.Tick(t.Context(), same)
			var coded *agon.Error
			switch {
			case errors.As(err, &coded) && coded.Code == "reveal_unseen" && l.lost:
				unseen++
			case err != nil:
				t.Fatal(err)
			}
			if slices.Contains(r.Actions, want) {
				return r.Actions
			}
			if l.lost && slices.Contains(r.Actions, ActionRevealed) {
				t.Fatalf("block %d: a reveal that the ledger lost counts: %v", r.Block, r.Actions)
			}
		}
		t.Fatalf("no %s in 100 blocks", want)
		return nil
	}
	until(ActionRevealed)
	shown := w.graph(1).Weights
	l.lost = true
	if got := until(ActionLost); slices.Contains(got, ActionRevealed) || unseen == 0 {
		t.Errorf("the ledger lost the reveal: %v, %d complaints", got, unseen)
	}
	if now := w.graph(1).Weights; len(now) != 1 || len(shown) != 1 || now[0].Block != shown[0].Block {
		t.Errorf("weights %v, before %v", now, shown)
	}
	l.lost = false
	until(ActionRevealed)
}

func TestPlanIsReported(t *testing.T) {
	w := newWorld(t, func(*ledger.Hyperparameters) {}, 1)
	k := w.open(1, ledgertest.Key(t, "nobody"))
	if r := tick(t, k); r.Done || len(r.Plan.Reasons) != 1 || r.Plan.Reasons[0].Name != ledger.ErrNotRegistered.Name {
		t.Errorf("%+v", r)
	}
}

var errKilled = errors.New("killed")

// A keeper that dies at any call, before it or after it, is opened again and
// neither gives weights twice nor loses what it promised.
func TestDiesAtEachCall(t *testing.T) {
	for _, commitReveal := range []bool{false, true} {
		for _, when := range []string{"before", "after"} {
			for _, call := range []string{"set", "commit", "reveal"} {
				t.Run(fmt.Sprintf("%t %s %s", commitReveal, when, call), func(t *testing.T) {
					w := newWorld(t, func(h *ledger.Hyperparameters) {
						h.Tempo, h.WeightsRateLimit, h.CommitReveal = 20, 1, commitReveal
					}, 1)
					hot := w.validator(1, "v")
					deaths := 0
					die := func(c string) error {
						if c == call && deaths < 1 {
							deaths++
							return errKilled
						}
						return nil
					}
					if when == "before" {
						w.before = die
					} else {
						w.after = die
					}
					k := w.open(1, hot)
					var actions []Action
					for w.block() < 100 {
						w.step(1)
						r, err := k.Tick(t.Context(), toOwner)
						actions = append(actions, r.Actions...)
						if err != nil {
							if !errors.Is(err, errKilled) {
								t.Fatal(err)
							}
							k = w.open(1, hot)
						}
					}
					wantDeaths := 0
					if (call == "set") != commitReveal {
						wantDeaths = 1
					}
					if deaths != wantDeaths {
						t.Errorf("%d deaths", deaths)
					}
					for key, n := range w.given {
						if n != 1 {
							t.Errorf("%s: %d times", key, n)
						}
					}
					if len(w.given) != 6 || slices.Contains(actions, ActionLost) {
						t.Errorf("%v, %v", w.given, actions)
					}
					if rows := w.graph(1).Weights; len(rows) != 1 || rows[0].Block < 80 {
						t.Errorf("weights %+v", rows)
					}
				})
			}
		}
	}
}

func TestSickLedger(t *testing.T) {
	w := newWorld(t, func(h *ledger.Hyperparameters) { h.Tempo = 20 }, 1)
	hot := w.validator(1, "v")
	w.step(200)
	k := w.open(1, hot)
	tick(t, k)
	ledgers := func(what string, err error) {
		t.Helper()
		var coded *agon.Error
		if !errors.As(err, &coded) || coded.Fault != agon.FaultLedger {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.before = func(string) error { return errors.New("no route") }
	_, err := k.Tick(t.Context(), toOwner)
	ledgers("gone", err)
	w.before = nil

	// Behind: another ledger answers under the same name.
	k.cfg.Ledger = newWorld(t, func(h *ledger.Hyperparameters) {}, 1)
	_, err = k.Tick(t.Context(), toOwner)
	ledgers("behind", err)
	k.cfg.Ledger = w

	// Stuck: the clock goes on and the block does not.
	k.cfg.Now = func() time.Time { return time.Unix(1e9, 0) }
	_, err = k.Tick(t.Context(), toOwner)
	ledgers("stuck", err)
	w.step(1)
	if _, err = k.Tick(t.Context(), toOwner); err != nil {
		t.Errorf("it goes on: %v", err)
	}

	// Slow.
	k.cfg.Timeout = time.Nanosecond
	_, err = k.Tick(t.Context(), toOwner)
	ledgers("slow", err)
}

func TestFileIsChecked(t *testing.T) {
	w := newWorld(t, func(*ledger.Hyperparameters) {}, 1)
	path := filepath.Join(w.dir, "k.json")
	for name, text := range map[string]string{
		"half": `{"version":1`, "other version": `{"version":2,"netuid":1,"hotkey":"h"}`, "other hotkey": `{"version":1,"netuid":1,"hotkey":"x"}`,
		"other subnet": `{"version":1,"netuid":2,"hotkey":"h"}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Ledger: w, Netuid: 1, Hotkey: "h", Path: path}); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// TestADay is 24 simulated hours: five subnets, three validators on each,
// commit-reveal on, blocks of 12 seconds. Now and then a validator is killed in
// the middle of a call and comes back later, answers are lost, and the ledger
// is away for minutes. At every tempo each validator gives weights, never twice,
// and each promise is revealed in its epoch.
func TestADay(t *testing.T) {
	const hours, blocks = 24, 24 * 3600 / 12
	netuids := []uint16{1, 2, 3, 4, 5}
	w := newWorld(t, func(h *ledger.Hyperparameters) {
		h.CommitReveal, h.Tempo, h.WeightsRateLimit, h.MinBurn, h.MaxBurn = true, 360, 100, 0, 0
	}, netuids...)
	r := rand.New(rand.NewPCG(24, 5))
	type party struct {
		netuid uint16
		hot    string
		k      *Keeper
		back   uint64 // block at which a dead one comes back
	}
	var parties []*party
	for _, netuid := range netuids {
		for i := range 3 {
			hot := w.validator(netuid, fmt.Sprintf("v%d-%d", netuid, i))
			parties = append(parties, &party{netuid: netuid, hot: hot, k: w.open(netuid, hot)})
		}
		for i := range 5 {
			m := ledgertest.Key(t, fmt.Sprintf("m%d-%d", netuid, i))
			if _, err := w.local.Register(t.Context(), netuid, m, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	var away uint64 // the ledger comes back at this block
	kill := false
	counts := map[string]int{}
	trouble := func(when string) func(string) error {
		return func(call string) error {
			switch {
			case w.block() < away:
				return errors.New("no route")
			case call == "read" || r.IntN(6) > 0:
				return nil
			}
			counts[when+" "+call]++
			kill = r.IntN(2) == 0
			return errKilled
		}
	}
	w.before, w.after = trouble("before"), trouble("after")
	want := func(m *ledger.Metagraph) (uids, values []uint16, err error) {
		for i := range m.Neurons {
			uids, values = append(uids, uint16(i)), append(values, uint16(r.Uint32()))
		}
		return uids, values, nil
	}
	for w.block() < blocks {
		w.step(1)
		if r.IntN(600) == 0 {
			away = w.block() + uint64(r.IntN(25))
			counts["outages"]++
		}
		for _, p := range parties {
			if w.block() < p.back {
				continue
			}
			if p.k == nil {
				p.k = w.open(p.netuid, p.hot)
			}
			if r.IntN(4) > 0 {
				continue // it looks every fourth block or so
			}
			report, err := p.k.Tick(t.Context(), want)
			var refusal *ledger.Error
			if errors.As(err, &refusal) {
				t.Fatalf("block %d: %v", w.block(), err)
			}
			for _, a := range report.Actions {
				counts[string(a)]++
			}
			if kill {
				kill, p.k, p.back = false, nil, w.block()+uint64(r.IntN(60))
				counts["deaths"]++
			}
		}
	}
	tempos, revealed := 0, 0
	for _, netuid := range netuids {
		m := w.graph(netuid)
		for _, p := range parties {
			if p.netuid != netuid {
				continue
			}
			for epoch := range m.EpochIndex() { // the last may still be to come
				n := w.given[fmt.Sprintf("%d %s %d", netuid, p.hot, epoch)]
				tempos++
				if n != 1 {
					t.Errorf("subnet %d, %s: weights given %d times in epoch %d", netuid, p.hot, n, epoch)
				}
			}
			n, _ := m.Neuron(p.hot)
			i := slices.IndexFunc(m.Weights, func(x ledger.WeightRow) bool { return x.UID == n.UID })
			if i < 0 || m.Weights[i].Block+2*360 < m.Block {
				t.Errorf("subnet %d, %s: weights do not stand", netuid, p.hot)
			}
			revealed++
		}
	}
	if counts["lost"] > 0 || counts["deaths"] < 20 || counts["outages"] < 3 || tempos < 15*(blocks/360-1) {
		t.Errorf("%v", counts)
	}
	var told []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		told = append(told, fmt.Sprintf("%s %d", k, counts[k]))
	}
	t.Logf("%d hours, %d blocks, %d validators, %d tempos: %s", hours, blocks, revealed, tempos, strings.Join(told, ", "))
	live, err := w.local.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{0, blocks / 2} {
		if again, err := w.local.Replay(t.Context(), from); err != nil || string(again) != string(live) {
			t.Errorf("the day, played again from block %d, differs (%v)", from, err)
		}
	}
}
