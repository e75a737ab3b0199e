package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
)

// spent is a model call that ran from one millisecond after start to another.
func spent(seq int64, start time.Time, from, to int, cost agon.Micros) agon.Event {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	e := event(seq, agon.EventModel, "small/one", map[string]any{"receipt": agon.Receipt{ID: fmt.Sprint(seq), Model: "<m>", Outcome: "ok", Start: at(from), End: at(to), Cost: cost}})
	e.At, e.Attempt = at(to), 1
	return e
}

// The lane of money rises with each call to what was spent by then, and links
// narrow what is drawn to a part of the time.
func TestTimeline(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	evs := []agon.Event{spent(1, start, 0, 1000, 100), spent(2, start, 1000, 2000, 0), spent(3, start, 3000, 4000, 300)}
	d := timelineOf(evs, 1, "")
	if d == nil || d.Zoomed || d.To != 4000 || len(d.Lanes) != 1 || len(d.Lanes[0].Bars) != 3 {
		t.Fatalf("%+v", d)
	}
	m := d.Money
	if m == nil || m.All != usd(400) || len(m.Bars) != 2 || m.Bars[0].H != moneyH/4 || m.Bars[1].H != moneyH || m.Bars[0].X+m.Bars[0].W != m.Bars[1].X || m.Bars[1].Y+m.Bars[1].H != m.Bars[0].Y+m.Bars[0].H {
		t.Fatalf("money: %+v", m)
	}
	if want := usd(400) + " by then; <m> cost " + usd(300); m.Bars[1].Label != want {
		t.Errorf("label %q, want %q", m.Bars[1].Label, want)
	}
	links := func(d *timeline) string {
		var out []string
		for _, w := range d.Windows {
			out = append(out, w.Name+" "+strings.TrimSuffix(strings.TrimPrefix(w.Link, "?attempt=1"), "#timeline"))
		}
		return strings.Join(out, ", ")
	}
	if got := links(d); got != "first half &t=0-2000, second half &t=2000-4000" {
		t.Errorf("links: %s", got)
	}
	if len(d.Closer) == 0 || d.Closer[0].Link != "?attempt=1&t=0-500#timeline" {
		t.Errorf("closer: %+v", d.Closer)
	}
	d = timelineOf(evs, 1, "2000-4000")
	if d == nil || !d.Zoomed || len(d.Lanes[0].Bars) != 2 || d.Lanes[0].Bars[1].X != timelineLeft+(timelineRight-timelineLeft)/2 || d.Lanes[0].Bars[1].Link != "?attempt=1&step=3&t=2000-4000#s1.3" {
		t.Fatalf("a part: %+v", d)
	}
	if d.Money.All != usd(400) || len(d.Money.Bars) != 2 || d.Money.Bars[0].X != timelineLeft {
		t.Errorf("money of a part: %+v", d.Money)
	}
	if got := links(d); got != "the whole , wider &t=1000-4000, ← earlier &t=0-2000, first half &t=2000-3000, second half &t=3000-4000" {
		t.Errorf("links of a part: %s", got)
	}
	for _, bad := range []string{"x", "5", "-5-9", "9-5", "7-8", "0-4000", "0-99999", "5000-9000", "1-2-3", "99999999999999999999-5"} {
		if d := timelineOf(evs, 1, bad); d == nil || d.Zoomed || d.To != 4000 {
			t.Errorf("%s: %+v", bad, d)
		}
	}
	if d := timelineOf(evs[1:2], 1, ""); d != nil {
		t.Errorf("of one piece: %+v", d)
	}
	// A tool that passes calls on to a model quotes a price; the model's call is what is paid.
	tool := func(name string) agon.Event {
		return event(4, agon.EventTool, "small/one", map[string]any{"tool": map[string]any{"tool": name, "outcome": "ok", "issued_at": start, "elapsed_ms": 5, "cost_micros": 900}})
	}
	if d := timelineOf(append([]agon.Event{tool(tools.LLMChat), tool("search_web")}, evs...), 1, ""); d.Money.All != usd(400+900) {
		t.Errorf("with tools: %s", d.Money.All)
	}
	free := timelineOf([]agon.Event{spent(1, start, 0, 10, 0), spent(2, start, 10, 20, 0)}, 1, "")
	if free == nil || free.Money != nil {
		t.Errorf("nothing was spent: %+v", free)
	}
}

// Whatever was done when, every bar stays within the drawing, whichever part of it is shown.
func TestTimelineStaysInside(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var evs []agon.Event
	for i := range 50 {
		evs = append(evs, spent(int64(i+1), start, i*i*7, i*i*7+i*31%97, agon.Micros(i%5)))
	}
	for from := int64(0); from < 17_000; from += 333 {
		for _, span := range []int64{2, 10, 777, 20_000} {
			d := timelineOf(evs, 1, fmt.Sprintf("%d-%d", from, from+span))
			if d == nil {
				t.Fatal("no timeline")
			}
			in := func(what string, p piecework) {
				if p.X < timelineLeft || p.X+p.W > timelineRight+2 || p.W < 0 {
					t.Fatalf("%d-%d: %s %+v is outside", from, from+span, what, p)
				}
			}
			for _, l := range d.Lanes {
				for _, b := range l.Bars {
					in(l.Name, b)
				}
			}
			for _, b := range d.Money.Bars {
				in("money", b.piecework)
				if b.Y < d.Money.Y || b.Y+b.H > d.H {
					t.Fatalf("%+v is outside", b)
				}
			}
			for _, c := range d.Closer {
				in("tick", c)
			}
		}
	}
}

// A run's page has its money, and a link to a part of its time shows that part.
func TestRunTimeline(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "paid", "x = 1")
	l := f.claim()
	start := time.Now().Add(-time.Minute)
	f.beat(l, spent(1, start, 0, 1000, 0), spent(2, start, 1000, 2000, 0))
	f.score(l, 1, "")
	c := f.browser("")
	status, page := f.get(c, "/runs/"+l.Run.Run)
	if status != http.StatusOK || !strings.Contains(page, `id="timeline"`) || !strings.Contains(page, `href="?attempt=1&amp;t=0-1000#timeline"`) {
		t.Fatalf("%d: %s", status, page)
	}
	if status, page = f.get(c, "/runs/"+l.Run.Run+"?attempt=1&t=0-900"); status != http.StatusOK || strings.Count(page, `class="l-model"`) != 1 || !strings.Contains(page, "900 ms after its start") {
		t.Fatalf("%d: %s", status, page)
	}
	if status, _ = f.get(c, "/runs/"+l.Run.Run+"?t=%3Cscript%3E"); status != http.StatusOK {
		t.Errorf("a bad part: %d", status)
	}
}
