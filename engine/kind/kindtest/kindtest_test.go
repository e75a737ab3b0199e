package kindtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

func TestFakeKind(t *testing.T) { Run(t, FakeCase()) }

func TestSolvedRunScores(t *testing.T) {
	c := FakeCase()
	p := &validator.Player{
		Driver: fake.New(fake.Config{Exec: c.Behave}), Gateway: &world{},
		Kinds: map[string]kind.Kind{"fake": c.Kind}, Trees: c.Trees, Now: time.Now,
	}
	a := p.Play(context.Background(), c.job())
	if a.Fault != "" || len(a.Scores) != 1 || !a.Scores[0].Solved {
		t.Fatalf("fault %q (%s), scores %+v", a.Fault, a.Reason, a.Scores)
	}
	Verdict(t, a, c.job())
	// The record tells the box: name, version and what was enforced; so does the first event.
	if a.Driver.Name == "" || a.Driver.Version == "" || len(a.Driver.Limits) == 0 || !bytes.Contains(a.Events()[0].Data, []byte(`"limits"`)) {
		t.Errorf("driver %+v, first event %s", a.Driver, a.Events()[0].Data)
	}
	// An arena demands a driver: another one never plays, and it is not the agent's fault.
	for demand, want := range map[string]agon.Fault{a.Driver.Name: "", "runsc": agon.FaultValidator} {
		j := c.job()
		j.Run.Policy.Driver = demand
		if a := p.Play(context.Background(), j); a.Fault != want || (want != "") != (len(a.Scores) == 0) {
			t.Errorf("%s demanded: fault %q (%s), %d scores", demand, a.Fault, a.Reason, len(a.Scores))
		}
	}
}

// quiet is a kind without a box, a door or a tree: files are judged as they are.
type quiet struct{ Fake }

func (quiet) Play(context.Context, kind.Env, agon.Submission, agon.RunSpec) (agon.Record, error) {
	return agon.Record{Outcome: "ok", Files: map[string][]byte{"result": []byte("42")}}, nil
}

func (quiet) Judge(_ context.Context, _ kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	ok := string(rec.Files["result"]) == "42"
	return []agon.Score{{Task: r.Tasks[0].Key, Value: 1, Solved: ok}}, nil
}

// asks is a kind without a box whose judge is a model.
type asks struct{ quiet }

func (a asks) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	if _, err := env.Model(ctx, gateway.Policy{}); err != nil {
		return nil, err
	}
	s, err := a.quiet.Judge(ctx, env, r, rec)
	s[0].Value, s[0].Solved = 0.5, false
	return s, err
}

// doorless is a kind with a box and no door.
type doorless struct{ Fake }

func (f doorless) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	return f.Fake.Play(ctx, noDoor{env}, s, r)
}

type noDoor struct{ kind.Env }

func (noDoor) Door(context.Context, string, ...string) ([]sandbox.Door, error) { return nil, nil }

// Nothing is asked of a kind that it has no place for, and nobody need say so.
func TestKindsWithoutParts(t *testing.T) {
	for name, c := range map[string]struct {
		kind kind.Kind
		has  string // injections of which there must be some
		not  []string
	}{
		"quiet":    {quiet{}, "", []string{"box", "provider", "command", "limit", "exit"}},
		"asks":     {asks{}, "provider out, canary too", []string{"box", "command", "limit", "exit"}},
		"doorless": {doorless{}, "own memory limit", []string{"provider"}},
	} {
		t.Run(name, func(t *testing.T) {
			cs := FakeCase()
			cs.Kind = c.kind
			Run(t, cs)
			seen, _ := cs.clean()
			list := injections(seen)
			if (c.has != "") != slices.ContainsFunc(list, func(in injection) bool { return in.name == c.has }) {
				t.Errorf("%q is not among the failures", c.has)
			}
			for _, in := range list {
				for _, no := range c.not {
					if strings.Contains(in.name, no) {
						t.Errorf("%q has no place in this kind", in.name)
					}
				}
			}
		})
	}
}

// forgets runs the agent as if it were ours.
type forgets struct{ Fake }

func (f forgets) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	return f.Fake.Play(ctx, trusting{env}, s, r)
}

type trusting struct{ kind.Env }

func (e trusting) Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := e.Env.Box(ctx, spec)
	return trustingBox{b}, err
}

type trustingBox struct{ sandbox.Box }

func (b trustingBox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	cmd.Untrusted = false
	return b.Box.Exec(ctx, cmd)
}

// kindly calls every end of an agent good.
type kindly struct{ Fake }

func (f kindly) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	rec, err := f.Fake.Play(ctx, env, s, r)
	if rec.Outcome != "" {
		rec.Outcome = "ok"
	}
	return rec, err
}

// short forgets a task.
type short struct{ Fake }

func (short) Judge(context.Context, kind.Env, agon.RunSpec, agon.Record) ([]agon.Score, error) {
	return nil, nil
}

// The suite finds what is wrong with kinds that are wrong.
func TestWrongKindsAreFound(t *testing.T) {
	for name, k := range map[string]kind.Kind{"forgets": forgets{}, "kindly": kindly{}, "short": short{}} {
		c := FakeCase()
		c.Kind = k
		seen, problems := c.clean()
		for _, in := range injections(seen) {
			problems = append(problems, c.try(in)...)
		}
		if len(problems) == 0 {
			t.Errorf("%s passes", name)
		}
		t.Logf("%s: %s", name, problems[0])
	}
}

// coder is a kind that numbers failures, and notes what it was asked.
type coder struct {
	Fake
	asked *kind.Failure
}

func (c coder) FailureCode(f kind.Failure) (int, string) {
	*c.asked = f
	return 1, "one"
}

// A kind with numbers is asked for that of each failure with the stage it came at, and the
// reason names it.
func TestFailuresAreNumbered(t *testing.T) {
	start := func(name string) func(context.Context, *fake.Box) error {
		return func(_ context.Context, b *fake.Box) error {
			if b.Spec.Name == name {
				return host("disk full")
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		driver fake.Config
		want   kind.Failure
	}{
		"no box":       {fake.Config{Start: start("agent")}, kind.Failure{Fault: agon.FaultValidator, Stage: kind.StagePreparing}},
		"no grader":    {fake.Config{Start: start("grader"), Files: map[string][]byte{ResultFile: []byte("42")}}, kind.Failure{Fault: agon.FaultValidator, Stage: kind.StageGrading, Outcome: "ok"}},
		"agent's exit": {fake.Config{Exec: func(context.Context, *fake.Box, sandbox.Cmd) sandbox.Exit { return sandbox.Exit{Code: 1} }}, kind.Failure{Fault: agon.FaultAgent, Stage: kind.StagePlay, Outcome: "exited"}},
		"its box killed": {fake.Config{Exec: func(_ context.Context, b *fake.Box, _ sandbox.Cmd) sandbox.Exit {
			b.Kill("oom of the host")
			return sandbox.Exit{}
		}}, kind.Failure{Fault: agon.FaultValidator, Stage: kind.StagePlay, Outcome: "exited"}},
		"solved": {fake.Config{Files: map[string][]byte{ResultFile: []byte("42")}}, kind.Failure{}},
	} {
		t.Run(name, func(t *testing.T) {
			cs, got := FakeCase(), kind.Failure{}
			p := &validator.Player{
				Driver: fake.New(c.driver), Gateway: &world{},
				Kinds: map[string]kind.Kind{"fake": coder{asked: &got}}, Trees: cs.Trees, Now: time.Now,
			}
			a := p.Play(t.Context(), cs.job())
			if got != c.want || strings.HasSuffix(a.Reason, " (1, one)") != (a.Fault != "") {
				t.Errorf("asked %+v, want %+v; reason %q", got, c.want, a.Reason)
			}
		})
	}
	if got := kind.Coded(coder{asked: new(kind.Failure)}, kind.Failure{Fault: agon.FaultAgent}, strings.Repeat("\u20ac", 5000)); len(got) > 2000 || !strings.HasSuffix(got, "… (1, one)") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}
