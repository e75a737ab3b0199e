// Package check runs a task's controls: the reference solution must solve it,
// doing nothing must not, and both must come out the same every time. A task
// that fails its controls would score contestants by chance.
package check

import (
	"context"
	"fmt"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// Repeats is how often each control is graded.
const Repeats = 2

// Grader judges a patch the way a contestant's patch is judged. An empty patch
// grades the base tree as it is.
type Grader interface {
	// JudgePatch returns whether the patch solves t. detail is one line for
	// the task's author; up to its first ";" it must be the same whenever the
	// same patch is judged. An error means that grading could not be done.
	JudgePatch(ctx context.Context, t *task.Task, patch []byte) (solved bool, detail string, err error)
}

// Report is what the controls said about one task.
type Report struct {
	Task   string         `json:"task"`
	Digest agon.Digest    `json:"digest"`
	Oracle []bool         `json:"oracle"` // solved, by repeat
	Nop    []bool         `json:"nop"`
	Faults []agon.Finding `json:"faults,omitempty"` // why the task is refused
}

// OK reports whether the task may be played.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// Reason joins the faults to one line; empty if there are none.
func (r Report) Reason() string {
	parts := make([]string, 0, len(r.Faults))
	for _, f := range r.Faults {
		parts = append(parts, f.Field+": "+f.Message)
	}
	return strings.Join(parts, "; ")
}

// Check grades oracle and nop in turns, Repeats times each. It stops at the
// first grading that could not be done: nothing after it would be evidence.
func Check(ctx context.Context, g Grader, t *task.Task) Report {
	r := Report{Task: t.Key, Digest: t.Digest}
	refuse := func(code, field, format string, args ...any) {
		r.Faults = append(r.Faults, agon.Finding{Code: code, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	solution, err := t.SolutionPatch()
	if err != nil {
		refuse("no_solution", "oracle", "%v", err)
		return r
	}
	oracle := control{name: "oracle", patch: solution, want: true}
	nop := control{name: "nop"}
	for range Repeats {
		for _, c := range []*control{&oracle, &nop} {
			solved, detail, err := g.JudgePatch(ctx, t, c.patch)
			if err != nil {
				refuse("not_graded", c.name, "could not be graded: %v", err)
				r.Oracle, r.Nop = oracle.solved, nop.solved
				return r
			}
			c.solved = append(c.solved, solved)
			c.details = append(c.details, detail)
		}
	}
	r.Oracle, r.Nop = oracle.solved, nop.solved
	for _, c := range []control{oracle, nop} {
		if what := c.drift(); what != "" {
			refuse("drifts", c.name, "comes out differently: %s", what)
			continue
		}
		if c.solved[0] == c.want {
			continue
		}
		if c.want {
			refuse("not_solved", c.name, "the reference solution does not solve the task: %s", c.details[0])
		} else {
			refuse("solved_by_nothing", c.name, "the task is solved without a change: %s", c.details[0])
		}
	}
	if t.Dir != "" {
		again, err := task.LoadDir(t.Dir, t.Key)
		switch {
		case err != nil:
			refuse("drifts", "directory", "cannot be loaded after grading: %v", err)
		case again.Digest != t.Digest:
			refuse("drifts", "directory", "grading changed the task: digest %s, was %s", again.Digest, t.Digest)
		}
	}
	return r
}

// control is one patch whose outcome is known beforehand.
type control struct {
	name    string
	patch   []byte
	want    bool
	solved  []bool
	details []string
}

// drift says how repeats differ, or nothing.
func (c control) drift() string {
	counts := func(detail string) string {
		s, _, _ := strings.Cut(detail, ";")
		return s
	}
	for i := 1; i < len(c.solved); i++ {
		if c.solved[i] != c.solved[0] || counts(c.details[i]) != counts(c.details[0]) {
			return fmt.Sprintf("solved %v (%s), then %v (%s)", c.solved[0], c.details[0], c.solved[i], c.details[i])
		}
	}
	return ""
}
