package kindtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// world is one attempt of the case: it counts what the kind uses, and makes one
// thing fail.
type world struct {
	c Case
	// exec plays the commands of boxes.
	exec func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit
	// Before a box is started, a command run, a tree fetched or a session opened;
	// n counts from 1. nil: nothing happens.
	onBox, onExec, onTree, onSession func(n int) error
	// awaited says that one use is to fail: happened says that it did.
	awaited bool
	// ev is what the gateway saw of every session.
	ev gateway.Evidence

	mu                        sync.Mutex // guards all below
	boxes                     []string   // names, in the order of their start
	agent, own, trees, opened int        // commands of the agent and of ours; trees; sessions
	happened                  bool       // what was to fail has been asked for
	ended                     string     // how, for people
}

// step counts one use and calls what waits for it.
func (w *world) step(n *int, f func(int) error) error {
	w.mu.Lock()
	*n++
	at := *n
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(at)
}

// Tree implements validator.Trees.
func (w *world) Tree(ctx context.Context, d agon.Digest) (string, error) {
	if err := w.step(&w.trees, w.onTree); err != nil {
		return "", err
	}
	return w.c.Trees.Tree(ctx, d)
}

// Open implements validator.Gateway.
func (w *world) Open(context.Context, gateway.Policy, gateway.Recorder) (gateway.Session, error) {
	if err := w.step(&w.opened, w.onSession); err != nil {
		return nil, err
	}
	return noSession{w.ev}, nil
}

// noSession sees nothing but its evidence.
type noSession struct{ ev gateway.Evidence }

func (s noSession) ID() string                 { return "none" }
func (s noSession) BaseURL() string            { return "http://127.0.0.1:1" }
func (s noSession) Header() map[string]string  { return nil }
func (s noSession) Spent() agon.Micros         { return 0 }
func (s noSession) Receipts() []agon.Receipt   { return nil }
func (s noSession) Evidence() gateway.Evidence { return s.ev }
func (s noSession) Close() error               { return nil }

// play makes the attempt, and says how many boxes were left open.
func (w *world) play(ctx context.Context) (a *validator.Attempt, open int) {
	p, d := w.player()
	return p.Play(ctx, w.c.job()), d.Open()
}

func (w *world) player() (*validator.Player, *fake.Driver) {
	if w.exec == nil {
		w.exec = w.c.Behave
	}
	d := fake.New(fake.Config{
		Start: func(_ context.Context, b *fake.Box) error {
			w.mu.Lock()
			w.boxes = append(w.boxes, b.Spec.Name)
			n := len(w.boxes)
			w.mu.Unlock()
			if w.onBox == nil {
				return nil
			}
			return w.onBox(n)
		},
		ExecErr: func(_ *fake.Box, cmd sandbox.Cmd) error {
			n := &w.own
			if cmd.Untrusted {
				n = &w.agent
			}
			return w.step(n, w.onExec)
		},
		Exec: func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit { return w.exec(ctx, b, cmd) },
	})
	return &validator.Player{Driver: d, Gateway: w, Kinds: map[string]kind.Kind{w.c.Kind.Name(): w.c.Kind}, Trees: w, Now: time.Now, Tools: w.c.Tools}, d
}

// injection is one failure and whose fault it must be.
type injection struct {
	name string
	make func(w *world)
	want agon.Fault
	// solved says that a run that was solved all the same may stand.
	solved bool
}

func host(s string) error { return fmt.Errorf("%w: %s", sandbox.ErrHost, s) }

// nth fails the nth use.
func (w *world) nth(n int, err error) func(int) error {
	w.awaited = true
	return func(at int) error {
		if at != n {
			return nil
		}
		w.mu.Lock()
		w.happened = true
		w.mu.Unlock()
		return err
	}
}

// injections are the failures that have a place in a kind that uses what seen saw.
func injections(seen *world) []injection {
	var out []injection
	add := func(name string, want agon.Fault, f func(w *world)) {
		out = append(out, injection{name: name, make: f, want: want})
	}
	for i, name := range seen.boxes {
		add(fmt.Sprintf("host disk full at the start of box %d (%s)", i+1, name), agon.FaultValidator, func(w *world) {
			w.onBox = w.nth(i+1, host("no space left on device"))
		})
	}
	if len(seen.boxes) > 0 {
		add("driver died at start", agon.FaultValidator, func(w *world) { w.onBox = w.nth(1, host("runtime killed")) })
	}
	for i := range seen.trees {
		add(fmt.Sprintf("tree %d cannot be fetched", i+1), agon.FaultPlatform, func(w *world) { w.onTree = w.nth(i+1, errors.New("connection reset")) })
	}
	if seen.agent+seen.own > 0 {
		add("exec refused by the host", agon.FaultValidator, func(w *world) { w.onExec = func(int) error { return host("cannot fork") } })
	}
	if seen.own > 0 {
		add("our own commands lost", agon.FaultValidator, func(w *world) {
			w.exec = func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
				if cmd.Untrusted {
					return w.c.Behave(ctx, b, cmd)
				}
				b.Kill("killed")
				return sandbox.Exit{Code: 137}
			}
		})
	}
	out = append(out, ofAgents(seen)...)
	if seen.opened > 0 && seen.agent == 0 {
		out = append(out, injection{name: "provider out, canary too", want: agon.FaultProvider, solved: true, make: func(w *world) { w.ev = outage }})
	}
	return out
}

// outage is what a gateway sees while its provider is out.
var outage = gateway.Evidence{Calls: 3, ProviderErrors: 3, LastError: "payment", CanaryFailed: true}

// ofAgents are the failures of the agent's commands and boxes.
func ofAgents(seen *world) []injection {
	if seen.agent == 0 {
		return nil
	}
	var out []injection
	ends := func(name string, want agon.Fault, f func(b *fake.Box) sandbox.Exit) {
		out = append(out, injection{name: name, want: want, make: func(w *world) {
			w.exec = func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
				if cmd.Untrusted {
					return f(b)
				}
				return sandbox.Exit{}
			}
		}})
	}
	exit := func(x sandbox.Exit) func(*fake.Box) sandbox.Exit { return func(*fake.Box) sandbox.Exit { return x } }
	for name, how := range map[string]string{
		"agent's box killed from outside": "killed", "host out of memory": "host_oom", "host disk full": "host_disk", "driver died": "driver_died",
	} {
		ends(name, agon.FaultValidator, func(b *fake.Box) sandbox.Exit { b.Kill(how); return sandbox.Exit{Code: 137} })
	}
	if seen.opened > 0 {
		for name, ev := range map[string]gateway.Evidence{
			"provider out, canary too":     outage,
			"provider errors, canary well": {Calls: 3, ProviderErrors: 3, LastError: "rate_limit"},
		} {
			want := agon.FaultAgent
			if ev.CanaryFailed {
				want = agon.FaultProvider
			}
			ends(name, want, exit(sandbox.Exit{Code: 1}))
			in := &out[len(out)-1]
			agent := in.make
			in.make = func(w *world) { agent(w); w.ev = ev }
		}
	}
	ends("own memory limit", agon.FaultAgent, func(b *fake.Box) sandbox.Exit {
		b.SetEnd(sandbox.End{Ended: true, Limit: "memory"})
		return sandbox.Exit{Code: 137, Limit: "memory"}
	})
	ends("own wall limit", agon.FaultAgent, exit(sandbox.Exit{Code: 137, Limit: "wall"}))
	ends("own output limit", agon.FaultAgent, exit(sandbox.Exit{Code: 137, Limit: "output"}))
	ends("own disk limit", agon.FaultAgent, exit(sandbox.Exit{Code: 1, Limit: "disk"}))
	ends("kills itself", agon.FaultAgent, exit(sandbox.Exit{Code: 137, Signal: 9}))
	ends("exits early", agon.FaultAgent, exit(sandbox.Exit{}))
	ends("exits with our words", agon.FaultAgent, func(b *fake.Box) sandbox.Exit {
		for _, m := range b.Spec.Mounts {
			b.SetFile(m.Target+"/fault", []byte(`{"fault":"provider","http_status":503,"exception":"ConnectionError"}`))
		}
		return sandbox.Exit{Code: 1}
	})
	slices.SortStableFunc(out, func(a, b injection) int { return strings.Compare(a.name, b.name) })
	return out
}

// anotherWay says that the kind did not ask for what was to fail, as it did
// when nothing failed: it remembers things, or does them side by side.
const anotherWay = "the kind took another way this time"

// try plays one injection and says what the kind made wrong of it.
func (c Case) try(in injection) (problems []string) {
	w := &world{c: c}
	in.make(w)
	a, open := w.play(context.Background())
	if open != 0 {
		problems = append(problems, fmt.Sprintf("%d boxes left open", open))
	}
	if w.awaited && !w.happened {
		return append(problems, anotherWay)
	}
	if a.Fault != in.want && !(in.solved && a.Fault == agon.FaultNone && solved(a)) {
		problems = append(problems, fmt.Sprintf("fault %q (%s), want %q", a.Fault, a.Reason, in.want))
	}
	return append(problems, verdict(a, c.job())...)
}

func solved(a *validator.Attempt) bool {
	return len(a.Scores) > 0 && !slices.ContainsFunc(a.Scores, func(s agon.Score) bool { return !s.Solved })
}

// clean plays the case with nothing wrong.
func (c Case) clean() (seen *world, problems []string) {
	seen = &world{c: c}
	a, open := seen.play(context.Background())
	if open != 0 {
		problems = append(problems, fmt.Sprintf("%d boxes left open", open))
	}
	if a.Fault.Ours() {
		problems = append(problems, fmt.Sprintf("fault %q (%s), though nothing failed", a.Fault, a.Reason))
	}
	if len(seen.boxes) > 0 && seen.agent == 0 {
		problems = append(problems, "boxes are started, but no command is marked Untrusted: then no failure is ever the agent's")
	}
	seen.ended = fmt.Sprintf("outcome %q", a.Outcome)
	if a.Fault != agon.FaultNone {
		seen.ended += fmt.Sprintf(", fault %q (%s)", a.Fault, a.Reason)
	}
	return seen, append(problems, verdict(a, c.job())...)
}

// stopped stops the validator as soon as the kind does something.
func (c Case) stopped() []string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &world{c: c}
	now := func(int) error { cancel(); return ctx.Err() }
	w.exec = func(_ context.Context, _ *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
		if !cmd.Untrusted {
			return sandbox.Exit{}
		}
		cancel()
		return sandbox.Exit{Code: 137}
	}
	if seen, _ := c.clean(); seen.agent == 0 {
		w.onBox, w.onExec, w.onTree, w.onSession = now, now, now, now
		if len(seen.boxes)+seen.own+seen.trees+seen.opened == 0 {
			cancel() // it does nothing that takes time
		}
	}
	a, _ := w.play(ctx)
	problems := verdict(a, c.job())
	if a.Fault != agon.FaultValidator {
		problems = append(problems, fmt.Sprintf("fault %q, want validator", a.Fault))
	}
	return problems
}

// faults plays the kind in a world in which one thing fails at a time.
func faults(t *testing.T, c Case) {
	report := func(t *testing.T, problems []string) {
		t.Helper()
		for _, p := range problems {
			t.Error(p)
		}
	}
	seen, problems := c.clean()
	t.Run("nothing", func(t *testing.T) { report(t, problems) })
	t.Logf("the kind starts the boxes %q, runs %d commands of the agent and %d of its own, opens %d sessions, fetches %d trees: %s", seen.boxes, seen.agent, seen.own, seen.opened, seen.trees, seen.ended)
	for _, in := range injections(seen) {
		t.Run(in.name, func(t *testing.T) {
			problems := c.try(in)
			if len(problems) == 1 && problems[0] == anotherWay {
				t.Skip(anotherWay)
			}
			report(t, problems)
		})
	}
	t.Run("stopped while playing", func(t *testing.T) { report(t, c.stopped()) })
}
