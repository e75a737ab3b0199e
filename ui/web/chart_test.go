package web

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// rowsOf are board rows of a cost in dollars and a score.
func rowsOf(list ...[2]float64) (out []boardRow) {
	for i, x := range list {
		score := x[1]
		out = append(out, boardRow{Submission: client.Submission{Submission: agon.Submission{ID: string(rune('a' + i)), Name: string(rune('a' + i))}, Score: &score, CostMicros: agon.Micros(x[0] * 1e6)}})
	}
	return out
}

func frontOf(c *Chart) (out string) {
	for _, r := range c.Rows {
		if r.Cells[2] == "yes" {
			out += r.Name
		}
	}
	return out
}

// Score against cost: no chart where costs are equal, the front is who nobody
// beats for less, and the axes hold what there is and little else.
func TestScoreCost(t *testing.T) {
	if c := scoreCost(rowsOf([2]float64{0, 0.5}, [2]float64{0, 0.7})); c != nil {
		t.Errorf("all costs are 0: %+v", c)
	}
	if c := scoreCost(rowsOf([2]float64{1, 0.5})); c != nil {
		t.Errorf("of one: %+v", c)
	}
	c := scoreCost(rowsOf([2]float64{2, 0.9}, [2]float64{1, 0.5}, [2]float64{1, 0.4}, [2]float64{1.5, 0.45}, [2]float64{3, 0.9}))
	if got := frontOf(c); got != "ba" {
		t.Errorf("front %q", got)
	}
	if c.plot.Log || len(c.XTicks) < 3 || c.XTicks[len(c.XTicks)-1].At > c.Right {
		t.Errorf("ticks %+v", c.XTicks)
	}
	// Costs far apart stand on powers of ten; what is free stands left of them all.
	c = scoreCost(rowsOf([2]float64{0, 0.1}, [2]float64{0.002, 0.4}, [2]float64{5, 0.8}))
	if got := frontOf(c); !c.plot.Log || got != "abc" || c.XTicks[0].Label != "free" || c.XTicks[1].Label != "$0.001" {
		t.Errorf("front %q, %+v", got, c.XTicks)
	}
	for i, d := range c.Dots {
		if d.X < c.Left || d.X > c.Right || d.Y < c.Top || d.Y > c.Bottom || i > 0 && d.X <= c.Dots[i-1].X {
			t.Errorf("dot %+v", d)
		}
	}
	// A script's answers cost nothing real: it is shown, and not on the front.
	rows := rowsOf([2]float64{0.1, 0.9}, [2]float64{0.2, 0.5})
	rows[0].Scripted = true
	if got := frontOf(scoreCost(rows)); got != "b" {
		t.Errorf("front %q", got)
	}
}

func TestAround(t *testing.T) {
	for _, c := range []struct{ low, high, from, to float64 }{
		{0, 1, 0, 1.03}, {0.1, 0.9, 0, 0.98}, {-1, 1, -1.2, 1.2}, {100, 110, 99, 111}, {0, 0, 0, 0.05}, {2, 2, 1.8, 2.2},
	} {
		from, to := around(c.low, c.high)
		if d := max(from-c.from, c.from-from, to-c.to, c.to-to); d > 1e-9 {
			t.Errorf("%v to %v: %v to %v, want %v to %v", c.low, c.high, from, to, c.from, c.to)
		}
	}
}

// Who waits stands on the board in the order in which they are played.
func TestBoardQueue(t *testing.T) {
	f := newFixture(t)
	f.submit(miner, "early", "x = 1")
	f.submit(rival, "late", "x = 2")
	_, page := f.get(f.browser(""), "/arenas/demo")
	at := strings.Index(page, `id="queue"`)
	if at < 0 {
		t.Fatal("no queue on the board")
	}
	early, late := strings.Index(page[at:], ">early</a>"), strings.Index(page[at:], ">late</a>")
	if early < 0 || late < early {
		t.Errorf("early at %d, late at %d", early, late)
	}
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 1, "")
	}
	if _, page = f.get(f.browser(""), "/arenas/demo"); strings.Contains(page, `id="queue"`) {
		// The page may be that of a second ago.
		t.Log("the queue is still shown: from the cache")
	}
}
