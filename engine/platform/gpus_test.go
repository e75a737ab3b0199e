package platform

import (
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

func card(n byte, model string) agon.GPU {
	return agon.GPU{ID: strings.Repeat(string('a'+n), 32), Model: model, MemoryBytes: 80 << 30, Driver: "570.86.15"}
}

// A run whose tasks need GPUs goes to a validator that has them and to no other; who
// has none in sight is told to the operator; a result names cards that fit, and that
// its validator had named.
func TestGPUQueue(t *testing.T) {
	f := strangers(t, 3, 0, func(_ *Config, a *agon.Arena) {
		a.Tasks[0].GPU = &agon.GPUNeed{Count: 1, Models: []string{"H100"}}
		a.Tasks[1].GPU, a.Tasks[1].Hidden = &agon.GPUNeed{Count: 2, MemoryBytes: 40 << 30}, true
	})
	h100, a100, a101 := card(0, "NVIDIA H100 80GB HBM3"), card(1, "NVIDIA A100-SXM4-80GB"), card(2, "NVIDIA A100-SXM4-80GB")
	claim := func(v string, gpus ...agon.GPU) *client.Lease {
		t.Helper()
		l, err := f.Claim(bg, Caller{Hotkey: v}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc", GPUs: gpus})
		must(t, err)
		return l
	}
	f.submit(miner1, "agent")
	for range 2 { // the one without a card gets what needs none, once
		if l := claim(val1); l != nil && l.Run.Tasks[0].GPU != nil {
			t.Fatalf("offered %+v", l.Run.Tasks[0])
		}
	}
	lacks, err := f.UnservedGPUs(bg, Caller{Operator: true}, "demo")
	must(t, err)
	if len(lacks) != 2 || !strings.Contains(lacks[0], "1 task needs 1 GPU (H100)") || !strings.Contains(lacks[1], "2 GPUs of 40.0 GiB") {
		t.Errorf("%q", lacks)
	}
	if l := claim(val2, a100); l != nil {
		t.Fatalf("one A100 is offered %+v", l.Run.Tasks)
	}
	one := claim(val2, h100, a100)
	if one == nil || one.Run.Tasks[0].GPU.Count != 1 {
		t.Fatalf("%+v", one)
	}
	two := claim(val3, a100, a101)
	if two == nil || two.Run.Tasks[0].GPU.Count != 2 {
		t.Fatalf("%+v", two)
	}
	res := f.attest(val3, two, scored(two, 1))
	for name, gpus := range map[string][]agon.GPU{"none": nil, "one": {a100}, "two models": {a100, h100}, "not its own": {a100, card(5, a100.Model)}, "one twice": {a100, a100}, "three": {a100, a101, card(6, a100.Model)}} {
		res.Driver.GPUs = gpus
		_, err := f.Result(bg, Caller{Hotkey: val3}, two.ID, res)
		wantCode(t, err, 422, "bad_result")
		if err == nil {
			t.Error(name)
		}
	}
	res.Driver.GPUs = []agon.GPU{a100, a101}
	f.result(val3, two, res)
	mine := f.attest(val2, one, scored(one, 1)) // with a card that it named a moment after its first claim
	mine.Driver.GPUs = []agon.GPU{h100}
	f.result(val2, one, mine)
	run, err := f.Run(bg, Caller{Operator: true}, two.Run.Run)
	must(t, err)
	if d := run.List[0].Driver; d.HardwareClass() != "2 x NVIDIA A100-SXM4-80GB" || !slices.Equal(d.GPUs, res.Driver.GPUs) {
		t.Errorf("recorded %+v", d)
	}
	// A need of a hidden task is not shown, a card that two name is.
	a, err := f.Arena(bg, "demo")
	must(t, err)
	for _, x := range a.Tasks {
		if x.Hidden && x.GPU != nil {
			t.Errorf("%+v", x)
		}
	}
	all, err := f.ValidatorStandings(bg)
	must(t, err)
	i := slices.IndexFunc(all.Validators, func(v client.ValidatorStanding) bool { return v.Hotkey == val3 })
	if i < 0 || len(all.Validators[i].GPUs) != 2 || !slices.Contains(all.Validators[i].SharesGPU, val2) {
		t.Errorf("%+v", all.Validators)
	}
	for _, bad := range [][]agon.GPU{{card(0, "it's %")}, {h100, h100}, {{ID: "x"}}, slices.Repeat([]agon.GPU{h100}, agon.MaxGPUs+1)} {
		_, err := f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc", GPUs: bad})
		wantCode(t, err, 422, "bad_claim")
	}
}
