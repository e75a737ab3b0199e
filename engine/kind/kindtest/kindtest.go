// Package kindtest is the conformance suite of kinds, and the proof of the
// engine's rule about faults: whatever goes wrong on our side, no kind turns it
// into a score, and whatever an agent does to itself, no kind makes it ours.
package kindtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// Case is what the suite needs to know of a kind.
type Case struct {
	Kind  kind.Kind
	Arena agon.Arena // with tasks
	Good  fs.FS      // files that may be entered
	Bad   []fs.FS    // files that may not
	Trees validator.Trees
	// Submission is played; its tree is Good.
	Submission agon.Submission
	// Tools serves kinds whose scripts call tools. Optional.
	Tools *validator.ToolHost
	// Without names injected failures that the kind has no place for, with the
	// reason, e.g. the judge's box of a kind that judges without one.
	Without map[string]string
	// Behave plays the agent's command so that the kind sees outcome "ok"; it
	// writes whatever the kind reads back. Trusted commands exit 0.
	Behave func(ctx context.Context, box *fake.Box, cmd sandbox.Cmd) sandbox.Exit
}

// Run runs the whole suite.
func Run(t *testing.T, c Case) {
	t.Run("names", func(t *testing.T) {
		if c.Kind.Name() == "" || c.Kind.Scorer() == "" {
			t.Error("a kind has a name and a scorer version")
		}
	})
	t.Run("check", func(t *testing.T) { check(t, c) })
	t.Run("plan", func(t *testing.T) { plan(t, c) })
	t.Run("faults", func(t *testing.T) { faults(t, c) })
}

func refuses(fs []agon.Finding) bool {
	for _, f := range fs {
		if !f.Warning {
			return true
		}
	}
	return false
}

func check(t *testing.T, c Case) {
	ctx := context.Background()
	for range 2 { // the same answer twice
		got, err := c.Kind.Check(ctx, &c.Arena, c.Good)
		if err != nil || refuses(got) {
			t.Fatalf("good files refused: %v %v", got, err)
		}
	}
	for i, bad := range c.Bad {
		a, err := c.Kind.Check(ctx, &c.Arena, bad)
		if err != nil {
			t.Fatalf("bad files %d: the check itself failed: %v", i, err)
		}
		if !refuses(a) {
			t.Errorf("bad files %d were let in", i)
		}
		for _, f := range a {
			if f.Code == "" || f.Message == "" {
				t.Errorf("bad files %d: finding without code or message: %+v", i, f)
			}
		}
		b, _ := c.Kind.Check(ctx, &c.Arena, bad)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("bad files %d: two checks differ", i)
		}
	}
}

// plan plays Plan against itself: it must be pure, name only tasks of the
// arena, and come to Done whatever the runs' ends are.
func plan(t *testing.T, c Case) {
	for _, end := range []agon.RunState{agon.RunScored, agon.RunFailed, agon.RunCancelled} {
		v := agon.View{Arena: c.Arena, Submission: c.Submission}
		for step := 0; ; step++ {
			if step > 1000 {
				t.Fatalf("ends %s: no Done after 1000 plans", end)
			}
			p1, err := c.Kind.Plan(v)
			if err != nil {
				t.Fatal(err)
			}
			p2, _ := c.Kind.Plan(v)
			if !reflect.DeepEqual(p1, p2) {
				t.Fatal("two plans of one view differ")
			}
			if p1.Done {
				break
			}
			if len(p1.Runs) == 0 {
				t.Fatalf("ends %s: neither runs nor Done: %s", end, p1.Why)
			}
			for i, r := range p1.Runs {
				for _, tk := range r.Tasks {
					known := false
					for _, a := range c.Arena.Tasks {
						known = known || a == tk
					}
					if !known {
						t.Fatalf("plan names task %s, which the arena has not", tk.Key)
					}
				}
				r.Run = fmt.Sprintf("run-%d-%d", step, i)
				run := agon.Run{RunSpec: r, Submission: c.Submission.ID, State: end}
				if end == agon.RunScored {
					for _, tk := range r.Tasks {
						run.Scores = append(run.Scores, agon.Score{Run: r.Run, Task: tk.Key, Value: 1, Solved: true})
					}
				}
				v.Runs = append(v.Runs, run)
			}
		}
	}
}

// job is one run of the case's first task.
func (c Case) job() validator.Job {
	return validator.Job{
		Run: agon.RunSpec{Run: "run-1", Arena: c.Arena.ID, Tasks: c.Arena.Tasks[:1], Seed: 7, Policy: c.Arena.Policy}, Attempt: 1,
		Arena: c.Arena, Submission: c.Submission,
	}
}

// noGateway is a gateway whose sessions see nothing.
type noGateway struct{ ev gateway.Evidence }

func (g noGateway) Open(context.Context, gateway.Policy, gateway.Recorder) (gateway.Session, error) {
	return noSession(g), nil
}

type noSession struct{ ev gateway.Evidence }

func (s noSession) ID() string                 { return "none" }
func (s noSession) BaseURL() string            { return "http://127.0.0.1:1" }
func (s noSession) Header() map[string]string  { return nil }
func (s noSession) Spent() agon.Micros         { return 0 }
func (s noSession) Receipts() []agon.Receipt   { return nil }
func (s noSession) Evidence() gateway.Evidence { return s.ev }
func (s noSession) Close() error               { return nil }

// faults plays the kind on a driver that fails on demand.
func faults(t *testing.T, c Case) {
	type inject struct {
		name string
		cfg  func(*fake.Config)
		ev   gateway.Evidence
		want agon.Fault
	}
	onAgent := func(f func(b *fake.Box) sandbox.Exit) func(*fake.Config) {
		return func(fc *fake.Config) {
			fc.Exec = func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
				if cmd.Untrusted {
					return f(b)
				}
				return sandbox.Exit{}
			}
		}
	}
	onTrusted := func(f func(b *fake.Box) sandbox.Exit) func(*fake.Config) {
		return func(fc *fake.Config) {
			fc.Exec = func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
				if !cmd.Untrusted {
					return f(b)
				}
				return c.Behave(ctx, b, cmd)
			}
		}
	}
	kill := func(how string) func(b *fake.Box) sandbox.Exit {
		return func(b *fake.Box) sandbox.Exit { b.Kill(how); return sandbox.Exit{Code: 137} }
	}
	limit := func(l string) func(b *fake.Box) sandbox.Exit {
		return func(b *fake.Box) sandbox.Exit {
			b.SetEnd(sandbox.End{Ended: true, Limit: l})
			return sandbox.Exit{Code: 137, Limit: l}
		}
	}
	startFails := func(nth int64, err error) func(*fake.Config) {
		var n atomic.Int64
		return func(fc *fake.Config) {
			fc.Exec = c.Behave
			fc.Start = func(context.Context, *fake.Box) error {
				if n.Add(1) == nth {
					return err
				}
				return nil
			}
		}
	}
	host := func(s string) error { return fmt.Errorf("%w: %s", sandbox.ErrHost, s) }
	for _, in := range []inject{
		{name: "host disk full at start", cfg: startFails(1, host("no space left on device")), want: agon.FaultValidator},
		{name: "driver died at start", cfg: startFails(1, host("runtime killed")), want: agon.FaultValidator},
		{name: "host disk full at the judge's start", cfg: startFails(2, host("no space left on device")), want: agon.FaultValidator},
		{name: "agent's box killed from outside", cfg: onAgent(kill("killed")), want: agon.FaultValidator},
		{name: "host out of memory", cfg: onAgent(kill("host_oom")), want: agon.FaultValidator},
		{name: "host disk full", cfg: onAgent(kill("host_disk")), want: agon.FaultValidator},
		{name: "driver died", cfg: onAgent(kill("driver_died")), want: agon.FaultValidator},
		{name: "our own commands lost", cfg: onTrusted(kill("killed")), want: agon.FaultValidator},
		{name: "exec refused by the host", cfg: func(fc *fake.Config) {
			fc.ExecErr = func(*fake.Box, sandbox.Cmd) error { return host("cannot fork") }
		}, want: agon.FaultValidator},
		{
			name: "provider out, canary too", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{Code: 1} }),
			ev: gateway.Evidence{Calls: 3, ProviderErrors: 3, LastError: "payment", CanaryFailed: true}, want: agon.FaultProvider,
		},
		{
			name: "provider errors, canary well", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{Code: 1} }),
			ev: gateway.Evidence{Calls: 3, ProviderErrors: 3, LastError: "rate_limit"}, want: agon.FaultAgent,
		},
		{name: "own memory limit", cfg: onAgent(limit("memory")), want: agon.FaultAgent},
		{name: "own wall limit", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{Code: 137, Limit: "wall"} }), want: agon.FaultAgent},
		{name: "own output limit", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{Code: 137, Limit: "output"} }), want: agon.FaultAgent},
		{name: "own disk limit", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{Code: 1, Limit: "disk"} }), want: agon.FaultAgent},
		{name: "kills itself", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{Code: 137, Signal: 9} }), want: agon.FaultAgent},
		{name: "exits early", cfg: onAgent(func(*fake.Box) sandbox.Exit { return sandbox.Exit{} }), want: agon.FaultAgent},
		{name: "exits with our words", cfg: onAgent(func(b *fake.Box) sandbox.Exit {
			for _, m := range b.Spec.Mounts {
				b.SetFile(m.Target+"/fault", []byte(`{"fault":"provider","http_status":503,"exception":"ConnectionError"}`))
			}
			return sandbox.Exit{Code: 1}
		}), want: agon.FaultAgent},
	} {
		t.Run(in.name, func(t *testing.T) {
			if why, ok := c.Without[in.name]; ok {
				t.Skipf("not for this kind: %s", why)
			}
			var fc fake.Config
			in.cfg(&fc)
			d := fake.New(fc)
			p := &validator.Player{Driver: d, Gateway: noGateway{in.ev}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now, Tools: c.Tools}
			a := p.Play(context.Background(), c.job())
			if a.Fault != in.want {
				t.Errorf("fault %q (%s), want %q", a.Fault, a.Reason, in.want)
			}
			Verdict(t, a, c.job())
			if n := d.Open(); n != 0 {
				t.Errorf("%d boxes left open", n)
			}
		})
	}
	t.Run("stopped while playing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		d := fake.New(fake.Config{Exec: func(_ context.Context, _ *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				cancel()
				return sandbox.Exit{Code: 137}
			}
			return sandbox.Exit{}
		}})
		p := &validator.Player{Driver: d, Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now, Tools: c.Tools}
		a := p.Play(ctx, c.job())
		if a.Fault != agon.FaultValidator {
			t.Errorf("fault %q, want validator", a.Fault)
		}
		Verdict(t, a, c.job())
	})
}

// Verdict checks what must hold of any attempt: a fault of ours carries no
// score, the agent's carries a zero for each task, and the log has no gaps.
func Verdict(t *testing.T, a *validator.Attempt, job validator.Job) {
	t.Helper()
	switch {
	case a.Fault.Ours():
		if len(a.Scores) != 0 {
			t.Errorf("a fault of ours (%s) became a score: %+v", a.Fault, a.Scores)
		}
	default:
		if len(a.Scores) != len(job.Run.Tasks) {
			t.Errorf("%d scores for %d tasks", len(a.Scores), len(job.Run.Tasks))
		}
		for _, s := range a.Scores {
			if a.Fault == agon.FaultAgent && (s.Value != 0 || s.Solved) {
				t.Errorf("the agent's fault scored %v", s.Value)
			}
		}
	}
	for i, e := range a.Events() {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has seq %d", i, e.Seq)
		}
	}
}

// ErrNoTrees is what NoTrees answers.
var ErrNoTrees = errors.New("no trees here")

// NoTrees is a validator.Trees without any tree.
type NoTrees struct{}

// Tree implements validator.Trees.
func (NoTrees) Tree(context.Context, agon.Digest) (string, error) { return "", ErrNoTrees }
