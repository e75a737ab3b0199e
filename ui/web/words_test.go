package web

import (
	"html/template"
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

// A hit of the docs is a line of Markdown: its marks are not shown, and what is HTML in it is text.
func TestPassage(t *testing.T) {
	for line, want := range map[string]string{
		"| `burn` | a **price** per [page](ledger.md) |": "<code>burn</code> | a <strong>price</strong> per page",
		`{"a":"<b>"}`: "{&#34;a&#34;:&#34;&lt;b&gt;&#34;}",
	} {
		if got := string(passage(line)); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestShowMS(t *testing.T) {
	for n, want := range map[int64]string{820: "820 ms", 1500: "1.5 s", 61_000: "1 min 1 s", 3_700_000: "1 h 1 min"} {
		if got := showMS(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// Hidden steps take one line each, for a page of them says nothing more.
func TestHiddenStepsAreSlim(t *testing.T) {
	s := stepOf(agon.Event{Type: agon.EventTool, Data: []byte(`{"withheld":true}`)}, maxBlock)
	if !s.Withheld || !s.Slim() || !(&runData{Steps: []Step{s}}).Hidden() || (&runData{Steps: []Step{{}}}).Hidden() {
		t.Errorf("a hidden step: %+v", s)
	}
}

// Two are compared on the tasks that both scores are of, as their tiers are: who knows
// public answers by heart is not called better than who leads.
func TestPairedOnWhatCounts(t *testing.T) {
	a := agon.Arena{Tasks: []agon.TaskRef{{Key: "p1"}, {Key: "p2"}, {Key: "h1", Hidden: true}, {Key: "h2", Hidden: true}}}
	two, knows, leads := 2, 0.0, 0.5
	x, y := &client.Submission{Score: &knows, Total: &two}, &client.Submission{Score: &leads, Total: &two}
	x.ID, y.ID = "x", "y"
	values := map[string]map[string]float64{"x": {"p1": 1, "p2": 1, "h1": 0, "h2": 0}, "y": {"p1": 0, "p2": 0, "h1": 1, "h2": 0}}
	which := "2 tasks that both played and that count for the scores (2 others do not)"
	if v := versusOf(a, x, y, values); v.Tasks != 2 || v.Better != 0 || v.Worse != 1 || v.Which() != which || len(pairsOf(v.Own, v.Theirs)) != 1 {
		t.Errorf("%+v, %s", v, v.Which())
	}
	// One that is still played is compared on what will count.
	x.Score, x.Total = nil, nil
	if v := versusOf(a, x, y, values); v.Tasks != 2 || v.Worse != 1 || v.Which() != which {
		t.Errorf("with one that has no score: %+v, %s", v, v.Which())
	}
	values["x"] = map[string]float64{"p1": 1, "p2": 1}
	if v := versusOf(a, x, y, values); v.Tasks != 2 || v.Better != 2 || v.Which() != "2 tasks that both played, though no task counts for the scores of both" {
		t.Errorf("with one that has played the public ones: %+v, %s", v, v.Which())
	}
	y.Score, y.Total = nil, nil
	if v := versusOf(a, x, y, values); v.Which() != "2 tasks that both played" {
		t.Errorf("without scores: %s", v.Which())
	}
}

// A board says how hard its set is, and why, where the level follows who sits.
func TestHardness(t *testing.T) {
	var b strings.Builder
	board := template.Must(template.New("").Funcs(funcs).Parse(`{{with hardness .Arena.Seeds}}{{line .}}{{end}}`))
	d := &agon.SetDifficulty{Level: 2, Rule: agon.Difficulty{Least: 1, Most: 5, Target: 0.5}}
	for want, x := range map[string]*client.Seeds{
		"": nil, "The hidden tasks of this period have level 2 of 1 to 5, the first.": {Period: &client.SeedPeriod{Difficulty: d}},
	} {
		b.Reset()
		if err := board.Execute(&b, map[string]any{"Arena": client.Arena{Seeds: x}}); err != nil || b.String() != want {
			t.Errorf("%q, want %q: %v", b.String(), want, err)
		}
	}
}

// The first task to look at is one that ran out of time, else the one that lost the champion most.
func TestFirstLook(t *testing.T) {
	one, half := 1.0, 0.5
	n := &nextStep{Hair: []taskGap{{Task: "near", Value: 0.75}}}
	check := func(task, why string) {
		t.Helper()
		if f := n.First(); f == nil || f.Task != task || f.Why != why {
			t.Errorf("%+v, want %s: %s", f, task, why)
		}
	}
	check("near", "it is nearly solved, at 0.7500")
	n.Behind, n.Lost = []taskGap{{Task: "lost", Champion: &one}, {Task: "less", Value: 0.25, Champion: &half}}, 5
	check("lost", "the champion scored 1.0000 there, and it 0.0000")
	n.Slow = []runRow{{Task: "2 tasks", Run: client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Tasks: []agon.TaskRef{{Key: "a"}, {Key: "b"}}}}}}}
	check("lost", "the champion scored 1.0000 there, and it 0.0000")
	n.Slow = append(n.Slow, runRow{Task: "slow", Run: client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Tasks: []agon.TaskRef{{Key: "slow"}}}}}})
	check("slow", "it ran out of time there")
	if n.MoreBehind() != 3 {
		t.Errorf("%d more", n.MoreBehind())
	}
	if f := (&nextStep{}).First(); f != nil {
		t.Errorf("of nothing: %+v", f)
	}
}

// Where others raced on hidden problems, a score of public ones alone is marked.
func TestPublicOnly(t *testing.T) {
	a := agon.Arena{Tasks: []agon.TaskRef{{Key: "p1"}, {Key: "p2"}, {Key: "h1", Hidden: true}, {Key: "h2", Hidden: true}}}
	two, half := 2, 0.5
	sub := &client.Submission{Score: &half, Total: &two}
	for _, c := range []struct {
		values map[string]float64
		want   bool
	}{
		{map[string]float64{"p1": 1, "p2": 0}, true},
		{map[string]float64{"p1": 0, "p2": 0, "h1": 1, "h2": 0}, false},
		{map[string]float64{}, false},
	} {
		if got := onPublicOnly(a, sub, c.values); got != c.want {
			t.Errorf("%v: %t", c.values, got)
		}
	}
	a.Tasks = a.Tasks[:2]
	if onPublicOnly(a, sub, map[string]float64{"p1": 1, "p2": 0}) {
		t.Error("marked where nothing is hidden")
	}
}
