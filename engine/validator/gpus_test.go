package validator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
	"github.com/agon-arena/agon/sandbox/gpu/gputest"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// gpuEnv is an attempt at a task that needs GPUs, on a machine with fake ones.
func gpuEnv(t *testing.T, g *GPUs, need *agon.GPUNeed) *env {
	t.Helper()
	p := &Player{Driver: fake.New(fake.Config{}), Now: time.Now, GPUs: g}
	e := &env{
		p: p, phase: PhasePlay, rec: &recorder{now: time.Now},
		job: Job{Run: agon.RunSpec{Tasks: []agon.TaskRef{{Key: "a/b", GPU: need}}}},
	}
	t.Cleanup(func() { e.close() })
	return e
}

func fakeGPUs(t *testing.T, n int) (*GPUs, *gputest.Fake) {
	f := gputest.NewFake(n, "Fake 1000", 1<<30)
	return &GPUs{Driver: f, Locks: gpu.Locks{Dir: t.TempDir(), Again: time.Millisecond}, Every: time.Hour}, f
}

func texts(e *env) string {
	var all []string
	for _, ev := range e.rec.rest() {
		all = append(all, string(ev.Data))
	}
	return strings.Join(all, "\n")
}

// Every box of an attempt has the same devices, alone, from the first box to the end.
func TestBoxesHaveTheirGPUs(t *testing.T) {
	g, f := fakeGPUs(t, 2)
	need := &agon.GPUNeed{Count: 1, MemoryBytes: 1 << 20, Models: []string{"1000"}}
	e := gpuEnv(t, g, need)
	spec := func(e *env, s sandbox.Spec) sandbox.Spec {
		t.Helper()
		out, err := e.withGPUs(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := spec(e, sandbox.Spec{}), spec(e, sandbox.Spec{})
	if a.Limits.GPUs != 1 || a.Limits.GPUMemoryBytes != 1<<20 || len(a.Devices.IDs) != 1 || a.Devices.IDs[0] != b.Devices.IDs[0] {
		t.Errorf("%+v %+v", a, b)
	}
	for name, s := range map[string]sandbox.Spec{"apart": {Apart: true}, "image": {Root: true}, "network": {Network: true}} {
		if x := spec(e, s); x.Devices != nil || x.Limits.GPUs != 0 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := spec(gpuEnv(t, nil, nil), sandbox.Spec{}); x.Devices != nil {
		t.Errorf("a task without need: %+v", x)
	}
	if list := e.gpus.given(); len(list) != 1 || list[0] != f.Cards[0].GPU {
		t.Errorf("recorded %+v", list)
	}
	other := gpuEnv(t, g, need)
	if x := spec(other, sandbox.Spec{}); x.Devices.IDs[0] == a.Devices.IDs[0] {
		t.Error("two attempts have one card")
	}
	// A third waits, says so, and goes on when one ends.
	third, got := gpuEnv(t, g, need), make(chan error)
	waits := make(chan bool, 1)
	third.rec.sink = func(ev agon.Event) {
		if strings.Contains(string(ev.Data), "waits for 1 GPU of 0.0 GiB (1000)") {
			waits <- true
		}
	}
	go func() {
		_, err := third.withGPUs(t.Context(), sandbox.Spec{})
		got <- err
	}()
	<-waits
	e.close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if _, err := e.withGPUs(t.Context(), sandbox.Spec{}); !errors.Is(err, errEnded) {
		t.Errorf("after its end: %v", err)
	}
}

// A machine that lacks what a task asks for is the validator's failure, a need that no
// machine could have the task's.
func TestNoGPUs(t *testing.T) {
	g, _ := fakeGPUs(t, 1)
	for name, c := range map[string]struct {
		g    *GPUs
		need *agon.GPUNeed
		want agon.Fault
	}{
		"no machine": {nil, &agon.GPUNeed{Count: 1}, agon.FaultValidator},
		"too few":    {g, &agon.GPUNeed{Count: 2}, agon.FaultValidator},
		"too small":  {g, &agon.GPUNeed{Count: 1, MemoryBytes: 1 << 31}, agon.FaultValidator},
		"bad need":   {g, &agon.GPUNeed{Count: 99}, agon.FaultTask},
	} {
		e := gpuEnv(t, c.g, c.need)
		_, err := e.withGPUs(t.Context(), sandbox.Spec{})
		if err == nil {
			t.Errorf("%s: a box", name)
		}
		o, _, _, _ := e.close()
		if f, why := AssignFault(o, agon.Record{}, err, nil, false); f != c.want {
			t.Errorf("%s: fault %q (%s), want %q", name, f, why, c.want)
		}
	}
}

// Times are the card's own, and what an unsteady card measured is void, no matter who was
// worse; with too many void ones the machine is to blame, and nobody without any.
func TestSpans(t *testing.T) {
	g, f := fakeGPUs(t, 1)
	e := gpuEnv(t, g, &agon.GPUNeed{Count: 1})
	if _, err := e.withGPUs(t.Context(), sandbox.Spec{}); err != nil {
		t.Fatal(err)
	}
	span := func(timed bool) kind.GPUSpan {
		t.Helper()
		ran := false
		s, err := e.Span(t.Context(), timed, func() error { ran = true; return nil })
		if err != nil || !ran {
			t.Fatal(err, ran)
		}
		return s
	}
	f.Timed(42 * time.Millisecond)
	if s := span(true); s.Took != 42*time.Millisecond || len(s.Samples) != 1 || len(s.Samples[0]) != 2 {
		t.Errorf("%+v", s)
	}
	if why := e.Void(span(false), span(false)); why != "" {
		t.Errorf("steady spans are void: %s", why)
	}
	if err := e.GiveUp(); err == nil || len(e.obs.Notes) != 0 {
		t.Errorf("given up with nothing void: %v, %+v", err, e.obs.Notes)
	}
	at := func(mhz int64) gpu.Sample { return gpu.Sample{ClockMHz: mhz, MemoryMHz: 1000, MaxMHz: 1500} }
	f.Sampled(at(1400), at(1400), at(1200), at(1200), at(1200))
	if why := e.Void(span(false), span(false)); !strings.Contains(why, "moved between 1200 and 1400") || !strings.Contains(texts(e), "a comparison is void") {
		t.Errorf("void: %q", why)
	}
	if err := e.GiveUp(); err == nil || len(e.obs.Notes) != 1 || e.obs.Notes[0].Fault != agon.FaultValidator {
		t.Errorf("given up: %v, %+v", err, e.obs.Notes)
	}
	broken := errors.New("broken")
	if _, err := e.Span(t.Context(), true, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the function's own error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Span(ctx, true, func() error { return ctx.Err() }); err == nil {
		t.Error("a span of somebody who has gone")
	}
	bare := gpuEnv(t, nil, nil)
	if s, err := bare.Span(t.Context(), true, func() error { return nil }); err != nil || s.Took != 0 || bare.Void(s) != "" {
		t.Errorf("without a GPU: %+v, %v", s, err)
	}
}
