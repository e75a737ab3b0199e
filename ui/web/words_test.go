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
	calls := func(titles ...string) (out []Step) {
		for i, t := range titles {
			out = append(out, Step{Seq: int64(10 * (i + 1)), Title: t, Blocks: []Block{{Text: t}}})
		}
		return out
	}
	run := func(name, task string, score *float64, cost agon.Micros, acts ...string) *compared {
		d := &compared{Sub: &client.Submission{}, Row: runRow{Task: task, Value: score}, Cost: cost, Acts: calls(acts...)}
		d.Sub.Name = name
		return d
	}
	shut := run("x", "t", v(1), 0, "a")
	shut.Acts[0] = Step{Withheld: true}
	for _, c := range []struct {
		a, b *compared
		want string
	}{
		{run("x", "t", v(0.25), 20_000), run("y", "t", v(1), 0), "y scored 0.7500 more than x; x made 0 calls for $0.02, y 0 calls for $0.00."},
		{run("x", "t", v(1), 0, "a"), run("y", "t", v(1), 0, "a"), "x and y scored the same; x made 1 call for $0.00, y 1 call for $0.00. Their calls are the same."},
		{run("x", "t", v(1), 0, "a", "b"), run("y", "t", v(1), 0, "a", "c"), "x and y scored the same; x made 2 calls for $0.00, y 2 calls for $0.00. The first call is the same, then x goes on with step 20 (b), y goes on with step 20 (c)."},
		{run("x", "t", v(1), 0), run("y", "t", v(1), 0, "c"), "x and y scored the same; x made 0 calls for $0.00, y 1 call for $0.00. They part at the first call: x makes no more calls, y goes on with step 10 (c)."},
		{shut, shut, "x and x scored the same; x made 1 call for $0.00, x 1 call for $0.00."},
		{run("x", "t", v(1), 0), run("y", "u", v(1), 0), "These runs are of different tasks: their scores do not compare."},
		{run("x", "t", nil, 0), run("y", "t", v(1), 0), ""},
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
