package web

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
)

func noTime(agon.Decision) string { return "then" }

// A card draws each decision in order and the champion's score over them, also
// where the seat was taken before what is drawn.
func TestCardChart(t *testing.T) {
	list := []agon.Decision{
		{Challenger: "a", Score: 0.2, Outcome: agon.TookSeat},
		{Challenger: "b", Score: 0.1, Outcome: agon.KeptSeat},
		{Challenger: "c", Score: 0.9, Outcome: agon.KeptSeat, Rule: incentive.ScriptedRule},
		{Challenger: "d", Score: 0.6, Outcome: agon.TookSeat, Numbers: map[string]float64{"observed": 85.014}},
	}
	c := chartOf(list, map[string]string{"d": "<d>\x1b[2J"}, noTime)
	if len(c.Dots) != 4 || c.Dots[0].Class != "dot champion" || c.Dots[1].Class != "dot" || c.Dots[2].Class != "dot scripted" || strings.Count(c.Path, "H") != 2 {
		t.Fatalf("%+v", c)
	}
	if d := c.Dots[3]; strings.ContainsRune(d.Label, 0x1b) || !strings.HasPrefix(d.Label, "<d>") || !strings.HasSuffix(d.Label, ": 85.014, took the seat then") {
		t.Errorf("label %q", d.Label)
	}
	if got := records(list); fmt.Sprint(got) != "[false false false true]" {
		t.Errorf("records: %v", got)
	}
	many := list[:1:1]
	for i := range 3 * cardDecisions {
		many = append(many, agon.Decision{Challenger: fmt.Sprint(i), Score: float64(i%7) / 100, Outcome: agon.KeptSeat})
	}
	c = chartOf(many, nil, noTime)
	if len(c.Dots) != cardDecisions || !strings.HasPrefix(c.Path, fmt.Sprintf("M%d ", cardLeft)) || c.Bars[0].Label != "0.2000" {
		t.Errorf("the seat was taken long ago: %+v", c)
	}
	for _, score := range []float64{0, 1, -3, 1e300, -1e300} {
		c := chartOf([]agon.Decision{{Score: score, Outcome: agon.TookSeat}, {Score: 0.5}}, nil, noTime)
		for _, d := range c.Dots {
			if d.X < 0 || d.X > cardW || d.Y < 0 || d.Y > cardH {
				t.Errorf("score %v: %+v is outside", score, d)
			}
		}
	}
}

// The first page tells of runs, takeovers and records, and draws each arena's decisions.
func TestHomeTellsWhatHappens(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	value := map[string]float64{}
	first := ""
	play := func(hotkey, name string, v float64) {
		id := f.submit(hotkey, name, "x = "+name).ID
		value[id], first = v, cmp.Or(first, id)
		for l := f.claim(); l != nil; l = f.claim() {
			f.score(l, value[l.Submission.ID], "")
		}
	}
	play(miner, "low", 0.4)
	play(rival, "<i>high", 0.8)
	f.submit(miner, "now", "x = 3")
	l := f.claim()
	f.beat(l)
	status, page := f.get(f.browser(""), "/")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	for _, want := range []string{
		`<a href="/runs/` + l.Run.Run + `">now</a> is `, "&lt;i&gt;high</a> scored 0.8000 on small/one", `&lt;i&gt;high</a> <span class="badge" title="more than any`,
		`class="line gold"`, `aria-label="low: 0.4000, took the seat`, "2 decisions in order", "Took",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in %s", want, page)
		}
	}
	if n := strings.Count(page, "more than any before"); n != 1 {
		t.Errorf("%d records, want one", n)
	}
	if _, page = f.get(f.browser(miner), "/desk"); !strings.Contains(page, "It sits no more: &lt;i&gt;high leads now.") {
		t.Errorf("who lost the seat is not told: %s", page)
	}
	if _, page = f.get(f.browser(""), "/submissions/"+first); !strings.Contains(page, "It sits no more: &lt;i&gt;high leads now.") {
		t.Errorf("its page does not tell that it sits no more: %s", page)
	}
	if _, page = f.get(f.browser(""), "/arenas/demo"); !strings.Contains(page, "Why it sits: ") {
		t.Errorf("the board does not say why its champion sits: %s", page)
	}
}
