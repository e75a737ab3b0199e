package local

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// A subnet that is forked shows what the one that was read showed, and its next
// epoch decides the same.
func TestFork(t *testing.T) {
	ctx := t.Context()
	open := func(cfg Config) *Ledger {
		l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	from := open(Config{Preset: PresetLocal, Now: clock})
	key := func(s string) string { return ledgertest.Key(t, s) }
	if err := from.EnsureSubnet(ctx, 5, Subnet{OwnerHotkey: key("owner"), OwnerColdkey: key("cold")}); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"v", "a", "b"} {
		if _, err := from.Register(ctx, 5, key(who), key(who+"-cold")); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.SetValidator(ctx, 5, key("v"), true, 100*tao); err != nil {
		t.Fatal(err)
	}
	now = now.Add(200 * from.BlockTime())
	if err := from.SetWeights(ctx, 5, key("v"), ledger.Weights{UIDs: []uint16{3, 2}, Values: []uint16{65535, 20000}}); err != nil {
		t.Fatal(err)
	}
	m, err := from.Metagraph(ctx, 5)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var read ledger.Metagraph // as from a file
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	early := open(Config{Preset: PresetLocal, Now: clock})
	if err := early.Fork(ctx, &read); err == nil {
		t.Error("a ledger at block 0 took a subnet of block 200")
	}
	to := open(Config{Preset: PresetLocal, Now: clock, Genesis: now.Add(-time.Duration(m.Block) * from.BlockTime())})
	if err := to.Fork(ctx, &read); err != nil {
		t.Fatal(err)
	}
	if err := to.Fork(ctx, &read); err == nil {
		t.Error("forked twice")
	}
	same := func() {
		t.Helper()
		one, err := from.Metagraph(ctx, 5)
		if err != nil {
			t.Fatal(err)
		}
		two, err := to.Metagraph(ctx, 5)
		if err != nil {
			t.Fatal(err)
		}
		// The pot of the running epoch is not in a metagraph: what is paid differs.
		for _, g := range []*ledger.Metagraph{one, two} {
			for i := range g.Neurons {
				g.Neurons[i].Emission, g.Neurons[i].Stake = 0, 0
			}
		}
		x, _ := json.Marshal(one)
		y, _ := json.Marshal(two)
		if string(x) != string(y) {
			t.Errorf("%s\n%s", x, y)
		}
	}
	same()
	now = now.Add(300 * from.BlockTime()) // past an epoch
	same()
	got, err := to.Metagraph(ctx, 5)
	if err != nil || got.Neurons[3].Incentive <= got.Neurons[2].Incentive || got.Neurons[2].Incentive == 0 {
		t.Errorf("the epoch: %+v %v", got.Neurons, err)
	}
}

// What cannot be forked leaves nothing.
func TestForkOfNonsense(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true})
	h, err := Hyperparameters(PresetLocal)
	if err != nil {
		t.Fatal(err)
	}
	before, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, b, cold := ledgertest.Key(t, "a"), ledgertest.Key(t, "b"), ledgertest.Key(t, "cold")
	good := func() *ledger.Metagraph {
		return &ledger.Metagraph{Netuid: 3, OwnerHotkey: a, OwnerColdkey: cold, Hyper: h, Neurons: []ledger.Neuron{{UID: 0, Hotkey: a, Coldkey: cold}, {UID: 1, Hotkey: b, Coldkey: cold}}}
	}
	for name, spoil := range map[string]func(*ledger.Metagraph){
		"the root network":   func(m *ledger.Metagraph) { m.Netuid = 0 },
		"no owner":           func(m *ledger.Metagraph) { m.OwnerHotkey = "" },
		"uids with a gap":    func(m *ledger.Metagraph) { m.Neurons[1].UID = 2 },
		"a hotkey twice":     func(m *ledger.Metagraph) { m.Neurons[1].Hotkey = a },
		"a block to come":    func(m *ledger.Metagraph) { m.Block = 1 },
		"three mechanisms":   func(m *ledger.Metagraph) { m.Mechanisms = make([]ledger.Mechanism, 2) },
		"rules that are not": func(m *ledger.Metagraph) { m.Hyper.MaxUIDs = 0 },
	} {
		m := good()
		spoil(m)
		if err := l.Fork(t.Context(), m); err == nil {
			t.Errorf("%s: forked", name)
		}
		if after, err := l.Snapshot(t.Context()); err != nil || string(after) != string(before) {
			t.Fatalf("%s: the ledger changed: %v", name, err)
		}
	}
	if err := l.Fork(t.Context(), good()); err != nil {
		t.Error(err)
	}
}
