// Package kindtest is the conformance suite of kinds, and the proof of the
// engine's rule about faults: whatever goes wrong on our side, no kind turns it
// into a score, and whatever an agent does to itself, no kind makes it ours.
package kindtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
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
	// Behave plays the commands of boxes, so that the kind sees outcome "ok": for
	// the agent's (Cmd.Untrusted) it writes whatever the kind reads back; trusted
	// commands exit 0. nil: every command exits 0.
	Behave func(ctx context.Context, box *fake.Box, cmd sandbox.Cmd) sandbox.Exit
}

// Run runs the whole suite. What a kind has no place for is not asked of it: the
// suite plays it once with nothing wrong, sees which boxes, commands, sessions
// and trees it uses, and makes each of those fail.
func Run(t *testing.T, c Case) {
	if c.Behave == nil {
		c.Behave = func(context.Context, *fake.Box, sandbox.Cmd) sandbox.Exit { return sandbox.Exit{} }
	}
	t.Run("names", func(t *testing.T) {
		if c.Kind.Name() == "" || c.Kind.Scorer() == "" {
			t.Error("a kind has a name and a scorer version")
		}
	})
	t.Run("check", func(t *testing.T) { check(t, c) })
	t.Run("plan", func(t *testing.T) { plan(t, c) })
	t.Run("faults", func(t *testing.T) { faults(t, c) })
	if k, ok := c.Kind.(kind.Printed); ok {
		t.Run("printed", func(t *testing.T) { printed(t, c, k) })
	}
}

// printed judges a record with what boxes printed and without it: operators remove that first.
func printed(t *testing.T, c Case, k kind.Printed) {
	w := &world{c: c}
	a, _ := w.play(t.Context())
	p, _ := w.player()
	judge := func(files map[string][]byte) string {
		s, err := p.Judge(t.Context(), c.Kind.Name(), c.job().Run, 1, agon.Record{Outcome: a.Outcome, Files: files})
		return fmt.Sprintf("%+v, %v", s, err)
	}
	less := maps.Clone(a.Files)
	maps.DeleteFunc(less, func(name string, _ []byte) bool { return k.Prints(name) })
	if len(less) == len(a.Files) {
		t.Errorf("of %v no file is what boxes printed", slices.Sorted(maps.Keys(a.Files)))
	}
	if with, without := judge(a.Files), judge(less); with != without {
		t.Errorf("with what boxes printed it judges %s, without %s", with, without)
	}
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
						known = known || reflect.DeepEqual(a, tk)
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

// Verdict checks what must hold of any attempt: a fault of ours carries no
// score, the agent's carries a zero for each task, and the log has no gaps.
func Verdict(t *testing.T, a *validator.Attempt, job validator.Job) {
	t.Helper()
	for _, p := range verdict(a, job) {
		t.Error(p)
	}
}

func verdict(a *validator.Attempt, job validator.Job) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	switch {
	case a.Fault.Ours():
		if len(a.Scores) != 0 {
			add("a fault of ours (%s) became a score: %+v", a.Fault, a.Scores)
		}
	default:
		if len(a.Scores) != len(job.Run.Tasks) {
			add("%d scores for %d tasks", len(a.Scores), len(job.Run.Tasks))
		}
		for _, s := range a.Scores {
			if a.Fault == agon.FaultAgent && (s.Value != 0 || s.Solved) {
				add("the agent's fault scored %v", s.Value)
			}
		}
	}
	for i, e := range a.Events() {
		if e.Seq != int64(i+1) {
			add("event %d has seq %d", i, e.Seq)
			break
		}
	}
	return problems
}

// ErrNoTrees is what NoTrees answers.
var ErrNoTrees = errors.New("no trees here")

// NoTrees is a validator.Trees without any tree.
type NoTrees struct{}

// Tree implements validator.Trees.
func (NoTrees) Tree(context.Context, agon.Digest) (string, error) { return "", ErrNoTrees }
