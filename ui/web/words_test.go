package web

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// What needs the operator is said first: a pause, faults of ours, and work that nobody takes.
func TestNeeds(t *testing.T) {
	a := client.Arena{Arena: agon.Arena{Title: "Golf", State: agon.ArenaOpen}}
	if got := needs(a, nil); len(got) != 0 {
		t.Errorf("all is well: %q", got)
	}
	a.State, a.Queued = agon.ArenaPaused, 2
	failed := runRow{}
	failed.State, failed.Fault = agon.RunFailed, agon.FaultProvider
	own := runRow{}
	own.State, own.Fault = agon.RunScored, agon.FaultAgent
	got := strings.Join(needs(a, []runRow{failed, own}), " ")
	for _, want := range []string{"Golf is paused", "1 run of the last ones failed on our side", "2 runs waiting and none under way"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if a.Playing = 1; strings.Contains(strings.Join(needs(a, nil), " "), "waiting") {
		t.Error("work that is under way needs nobody")
	}
}

// Two runs side by side begin with what differs.
func TestPartings(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	run := func(name, task string, score *float64, steps int64) *runData {
		d := &runData{Sub: &client.Submission{}, Row: runRow{Task: task, Value: score}, Total: steps}
		d.Sub.Name = name
		return d
	}
	for _, c := range []struct {
		a, b *runData
		want string
	}{
		{run("x", "t", v(0.25), 3), run("y", "t", v(1), 1), "y scored 0.7500 more than x; x took 3 steps, y 1 step."},
		{run("x", "t", v(1), 3), run("y", "t", v(1), 4), "x and y scored the same; x took 3 steps, y 4 steps."},
		{run("x", "t", v(1), 3), run("y", "u", v(1), 4), "These runs are of different tasks: their scores do not compare."},
		{run("x", "t", nil, 3), run("y", "t", v(1), 4), ""},
	} {
		if got := partings(c.a, c.b); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Weights are shown as parts of the whole: two of one weight are a half each.
func TestPartsOfWeights(t *testing.T) {
	got := parts([]agon.Weight{{UID: 0, Weight: 65535}, {UID: 3, Weight: 65535}})
	if got[0] != 0.5 || got[3] != 0.5 || len(parts(nil)) != 0 {
		t.Errorf("%v", got)
	}
	if p := targetParts(&client.Target{UIDs: []uint16{0, 3}, Values: []uint16{49152, 16384}}); p[0] != 0.75 || p[1] != 0.25 {
		t.Errorf("%v", p)
	}
}
