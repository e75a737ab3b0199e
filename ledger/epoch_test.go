package ledger

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
)

// The vectors of spec/chain.md 2.4.
func TestEra(t *testing.T) {
	for _, c := range []struct {
		period, current uint64
		want            string
	}{
		{8, 1000, "0200"},
		{64, 1000, "8502"},
		{128, 1000, "8606"},
		{256, 1000, "870e"},
		{8, 5123457, "1200"},
		{64, 5123457, "1500"},
		{128, 5123457, "1600"},
		{256, 5123457, "1708"},
		{0, 3, "3100"},
		{4, 3, "3100"},
		{5, 1000, "0200"},
		{100, 1000, "8606"},
		{1 << 40, 1 << 15, "0f80"},
		{65536, 65535, "ffff"},
	} {
		e := Era(c.period, c.current)
		if got := hex.EncodeToString(e[:]); got != c.want {
			t.Errorf("period %d at %d: %s, want %s", c.period, c.current, got, c.want)
		}
	}
}

// The vectors of spec/chain.md 3.3, and the two models by brute force.
func TestEpochNext(t *testing.T) {
	for _, c := range []struct {
		e     Epoch
		tempo uint16
		block uint64
		want  uint64
	}{
		{Epoch{LastBlock: 10, Since: 10}, 50, 10, 60},
		{Epoch{LastBlock: 80, PendingAt: 95, Since: 80}, 20, 91, 95},
		{Epoch{LastBlock: 80, Since: 80}, 20, 99, 100},
		{Epoch{LastBlock: 80, Since: 80}, 20, 100, 101}, // it is overdue: the next block
		{Epoch{LastBlock: 80, PendingAt: 500, Since: 80}, 20, 91, 100},
		{Epoch{LastBlock: 7, Since: 7}, 65535, 7, 7 + 50_401},
	} {
		if got, err := c.e.Next(Dynamic, 1, c.tempo, c.block); err != nil || got != c.want {
			t.Errorf("%+v tempo %d after %d: %d, want %d (%v)", c.e, c.tempo, c.block, got, c.want, err)
		}
	}
	for _, model := range []Model{Dynamic, Modulo} {
		if _, err := (Epoch{}).Next(model, 1, 0, 5); err == nil {
			t.Errorf("%s: a tempo of 0 has an epoch", model)
		}
		for netuid := range uint16(4) {
			for _, tempo := range []uint16{1, 2, 7, 360} {
				e := Epoch{LastBlock: 100, Since: 100}
				for block := uint64(100); block < 900; block++ {
					want := block + 1
					for !e.Due(model, netuid, tempo, want) {
						want++
					}
					if got, err := e.Next(model, netuid, tempo, block); err != nil || got != want {
						t.Fatalf("%s netuid %d tempo %d after %d: %d, want %d (%v)", model, netuid, tempo, block, got, want, err)
					}
				}
			}
		}
	}
	// The index of the modulo model grows one block after the step.
	h := Hyperparameters{Tempo: 10, Model: Modulo}
	if a, b := EpochIndex(&h, Epoch{}, 1, 19), EpochIndex(&h, Epoch{}, 1, 20); !(Epoch{}).Due(Modulo, 1, 10, 19) || b != a+1 {
		t.Errorf("index %d then %d", a, b)
	}
	// A commit of last 100, tempo 50, current 120 is of epoch 0; of a subnet that was put off, of the next.
	h.Model = Dynamic
	h.Tempo = 50
	if got := EpochIndex(&h, Epoch{LastBlock: 100, Since: 100}, 1, 120); got != 0 {
		t.Errorf("commit epoch %d", got)
	}
	if got := EpochIndex(&h, Epoch{LastBlock: 100, Since: 100, PendingAt: 151}, 1, 150); got != 1 {
		t.Errorf("commit epoch of a subnet that was put off: %d", got)
	}
}

func TestCalcEpochs(t *testing.T) {
	for _, c := range []struct{ rule, in, want string }{
		{"chain.era", `{"period":64,"current":1000}`, `{"hex":"8502"}`},
		{"chain.era", `{"period":64}`, `"error"`},
		{"chain.epoch_next", `{"netuid":1,"tempo":50,"block":10,"last_epoch_block":10,"pending_epoch_at":0,"model":"dynamic"}`, `{"block":60}`},
		{"chain.epoch_next", `{"netuid":1,"tempo":20,"block":91,"last_epoch_block":80,"pending_epoch_at":95,"model":"dynamic"}`, `{"block":95}`},
		{"chain.epoch_next", `{"netuid":1,"tempo":60000,"block":91,"last_epoch_block":80,"model":"dynamic"}`, `{"block":60080}`},
		{"chain.epoch_next", `{"netuid":1,"tempo":360,"block":0,"model":"modulo"}`, `{"block":358}`},
		{"chain.epoch_next", `{"netuid":1,"tempo":360,"block":359,"model":"modulo"}`, `{"block":719}`},
		{"chain.epoch_next", `{"netuid":1,"tempo":0,"block":10,"model":"dynamic"}`, `"error"`},
		{"chain.epoch_next", `{"netuid":1,"tempo":5,"block":10,"model":"static"}`, `"error"`},
		{"chain.epoch_next", `{"netuid":1,"tempo":5,"block":18446744073709551615,"model":"dynamic"}`, `"error"`},
	} {
		var out bytes.Buffer
		if _, err := calc.New(Rules()...).Run(c.rule, strings.NewReader(c.in), &out); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s %s: %v %s", c.rule, c.in, err, out.String())
		}
	}
}

func TestCommitHash(t *testing.T) {
	k, err := auth.KeyFromURI("//Alice")
	if err != nil {
		t.Fatal(err)
	}
	w := Weights{UIDs: []uint16{1, 2}, Values: []uint16{3, 4}, VersionKey: 5}
	base, err := CommitHash(k.SS58(), 3, w, []uint16{6})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Hash]bool{base: true}
	for name, f := range map[string]func() (Hash, error){
		"netuid": func() (Hash, error) { return CommitHash(k.SS58(), 4, w, []uint16{6}) },
		"salt":   func() (Hash, error) { return CommitHash(k.SS58(), 3, w, []uint16{7}) },
		"split": func() (Hash, error) {
			return CommitHash(k.SS58(), 3, Weights{[]uint16{1, 2, 3}, []uint16{4}, 5}, []uint16{6})
		},
		"key": func() (Hash, error) {
			return CommitHash(k.SS58(), 3, Weights{[]uint16{1, 2}, []uint16{3, 4}, 6}, []uint16{6})
		},
		"long": func() (Hash, error) {
			return CommitHash(k.SS58(), 3, Weights{make([]uint16, 70), make([]uint16, 20_000), 6}, nil)
		},
	} {
		h, err := f()
		if err != nil || seen[h] {
			t.Errorf("%s: %s %v", name, h, err)
		}
		seen[h] = true
	}
	if _, err := CommitHash("nobody", 3, w, nil); err == nil {
		t.Error("a hotkey that is not an address: accepted")
	}
	var back Hash
	if err := back.UnmarshalText([]byte(base.String())); err != nil || back != base {
		t.Errorf("%v", err)
	}
	for _, s := range []string{"", "0x" + base.String(), strings.Repeat("g", 64)} {
		if err := back.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q: accepted", s)
		}
	}
	for n, want := range map[uint32]string{0: "00", 63: "fc", 64: "0101", 16383: "fdff", 16384: "02000100"} {
		if got := hex.EncodeToString(appendCompact(nil, n)); got != want {
			t.Errorf("compact %d: %s, want %s", n, got, want)
		}
	}
}

func TestPlanWeights(t *testing.T) {
	base := func() *Metagraph {
		return &Metagraph{
			Netuid: 1, Block: 150, OwnerHotkey: "owner", Epoch: Epoch{LastBlock: 100, Since: 100, Index: 3},
			Hyper: Hyperparameters{Tempo: 100, WeightsRateLimit: 40, MaxValidators: 1, ImmunityPeriod: 5000, WeightsVersionKey: 2, StakeThreshold: 5},
			Neurons: []Neuron{
				{UID: 0, Hotkey: "owner", LastUpdate: 10},
				{UID: 1, Hotkey: "v", Permit: true, Stake: 10, LastUpdate: 110, RegisteredAt: 5},
				{UID: 2, Hotkey: "w", Stake: 20, RegisteredAt: 120, LastUpdate: 120},
				{UID: 3, Hotkey: "x", Stake: 7, LastUpdate: 1},
				{UID: 4, Hotkey: "m", LastUpdate: 1},
			},
		}
	}
	for name, c := range map[string]struct {
		hotkey   string
		key      uint64
		change   func(*Metagraph)
		ready    bool
		earliest uint64
		reasons  string
	}{
		"ready":             {"v", 2, nil, true, 150, ""},
		"owner":             {"owner", 9, nil, true, 150, ""},
		"rate limit":        {"v", 2, func(m *Metagraph) { m.Block = 149 }, false, 150, "SettingWeightsTooFast"},
		"version key":       {"v", 1, nil, false, 0, "IncorrectWeightVersionKey"},
		"just registered":   {"w", 2, nil, false, 200, "SettingWeightsTooFast NeuronNoValidatorPermit"},
		"no place":          {"x", 2, nil, false, 0, "NeuronNoValidatorPermit"},
		"miner":             {"m", 2, nil, false, 0, "NotEnoughStakeToSetWeights NeuronNoValidatorPermit"},
		"stranger":          {"z", 2, nil, false, 0, "HotKeyNotRegisteredInSubNet"},
		"commit":            {"v", 2, func(m *Metagraph) { m.Hyper.CommitReveal = true }, true, 150, ""},
		"commit too fast":   {"v", 2, func(m *Metagraph) { m.Hyper.CommitReveal, m.Block = true, 120 }, false, 150, "CommittingWeightsTooFast"},
		"too many commits":  {"v", 2, func(m *Metagraph) { m.Hyper.CommitReveal = true; m.Neurons[1].Commits = openTen(3) }, false, 0, "TooManyUnrevealedCommits"},
		"dead old commits":  {"v", 2, func(m *Metagraph) { m.Hyper.CommitReveal = true; m.Neurons[1].Commits = openTen(1) }, true, 150, ""},
		"no epoch for ever": {"w", 2, func(m *Metagraph) { m.Hyper.Tempo = 0; m.Block = 300 }, false, 0, "NeuronNoValidatorPermit"},
	} {
		m := base()
		if c.change != nil {
			c.change(m)
		}
		p := PlanWeights(m, c.hotkey, c.key)
		var names []string
		for _, r := range p.Reasons {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); p.Ready != c.ready || p.Earliest != c.earliest || got != c.reasons {
			t.Errorf("%s: ready %t, earliest %d, %s (%+v)", name, p.Ready, p.Earliest, got, p)
		}
		if m.Hyper.CommitReveal && (p.Call != CallCommitWeights || p.RevealFrom != 200 || p.RevealUntil != 300) {
			t.Errorf("%s: %s, reveal from %d to %d", name, p.Call, p.RevealFrom, p.RevealUntil)
		}
	}
	m := base()
	m.Hyper.CommitReveal, m.Hyper.ImmunityPeriod = true, 200
	if p := PlanWeights(m, "v", 2); len(p.Notes) != 1 {
		t.Errorf("immunity shorter than the reveal: %v", p.Notes)
	}
}

func openTen(epoch uint64) []WeightCommit {
	out := make([]WeightCommit, 10)
	for i := range out {
		out[i].Epoch = epoch
	}
	return out
}
