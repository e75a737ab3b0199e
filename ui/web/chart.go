package web

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/plain"
)

// Charts are drawn on the server as SVG, so that they stand without any script.
// Where a script runs, uPlot draws the same numbers (Plot) so that they can be
// read off and zoomed. Either way they stand in a table beside the drawing.

// Chart is a drawing of W by H units with axes, and the numbers behind it.
type Chart struct {
	Title          string
	W, H           int
	XLabel, YLabel string
	XTicks, YTicks []Tick
	Dots           []Dot
	Bars           []Bar
	Levels         []Tick // values that lines across name
	Path           string // of a line, SVG path data
	Left, Bottom   int    // where the axes cross
	Right, Top     int

	Plot string     // JSON of plot, for the script
	Head []string   // of the table
	Rows []ChartRow // of the table

	plot plot
}

// ChartRow is a line of a chart's table: the first cell links.
type ChartRow struct {
	Name, Link string
	Cells      []string
}

// plot is what the script needs: columns over a growing x.
type plot struct {
	Time   bool       `json:"time,omitempty"` // x is Unix time, s
	XLabel string     `json:"xlabel"`
	YLabel string     `json:"ylabel"`
	YMin   float64    `json:"ymin"`
	YMax   float64    `json:"ymax"`
	Ticks  []string   `json:"ticks,omitempty"` // x counts these from 0
	Log    bool       `json:"log,omitempty"`   // x is a power of ten
	X      []float64  `json:"x"`
	Names  []string   `json:"names"`
	Links  []string   `json:"links"`
	Series []plotLine `json:"series"`
}

type plotLine struct {
	Label string     `json:"label"`
	How   string     `json:"how"`   // dots, bars or steps
	Class string     `json:"class"` // colours it, as in SVG
	Y     []*float64 `json:"y"`
}

// Tick is one mark on an axis.
type Tick struct {
	At    int
	Label string
}

// Dot is one point; Class colours it.
type Dot struct {
	X, Y  int
	Class string
	Label string
	Link  string
}

// Bar is one upright bar.
type Bar struct{ X, Y, W, H int }

const (
	chartW, chartH = 640, 260
	chartTicks     = 8  // labels along x at most
	tickLen        = 10 // runes of a label along x
)

// frame makes an empty chart and the functions that place values in it.
func frame(title, xl, yl string, x0, x1, y0, y1 float64) (c *Chart, px, py func(float64) int) {
	if y1 <= y0 {
		y1 = y0 + 1
	}
	return spread(title, xl, yl, x0, x1, y0, y1)
}

// spread is frame for a span of y that may be as small as it likes.
func spread(title, xl, yl string, x0, x1, y0, y1 float64) (c *Chart, px, py func(float64) int) {
	c = &Chart{Title: title, W: chartW, H: chartH, XLabel: xl, YLabel: yl, Left: 56, Right: chartW - 14, Top: 14, Bottom: chartH - 40}
	if x1 <= x0 {
		x1 = x0 + 1
	}
	c.plot = plot{XLabel: xl, YLabel: yl, YMin: y0, YMax: y1}
	px = func(v float64) int { return c.Left + int(math.Round((v-x0)/(x1-x0)*float64(c.Right-c.Left))) }
	py = func(v float64) int { return c.Bottom - int(math.Round((v-y0)/(y1-y0)*float64(c.Bottom-c.Top))) }
	step := nice(y1-y0, 5)
	for v := math.Ceil(y0/step) * step; v <= y1+step/1e6; v += step {
		c.YTicks = append(c.YTicks, Tick{py(v), trim(v)})
	}
	return c, px, py
}

// done packs the numbers for the script.
func (c *Chart) done() *Chart {
	b, err := json.Marshal(c.plot)
	if err != nil {
		return c // a number that JSON cannot hold: the drawing stands without a script
	}
	c.Plot = string(b)
	return c
}

// point adds an x with its name and one y for each series; nil is not a value.
func (c *Chart) point(x float64, name, link string, ys ...*float64) {
	c.plot.X, c.plot.Names, c.plot.Links = append(c.plot.X, x), append(c.plot.Names, plain.Line(name)), append(c.plot.Links, link)
	for i, y := range ys {
		c.plot.Series[i].Y = append(c.plot.Series[i].Y, y)
	}
}

func trim(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// logFrom is the ratio of the dearest to the cheapest cost from which costs stand
// on an axis of powers: on an even one all but the dearest would be one heap.
const logFrom = 20

// scoreCost draws submissions by what they cost and what they reached, and the
// front: those that nobody beats in score for less money. Nil where costs or
// scores say nothing.
func scoreCost(rows []boardRow) *Chart {
	var scored []boardRow
	top, least, low, best := 0.0, math.Inf(1), math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		if r.Score == nil || r.Why != "" && r.CostMicros == 0 {
			continue // it was kept out before it could cost anything
		}
		cost := float64(r.CostMicros) / 1e6
		if top = max(top, cost); cost > 0 {
			least = min(least, cost)
		}
		low, best = min(low, *r.Score), max(best, *r.Score)
		scored = append(scored, r)
	}
	if len(scored) < 2 || !slices.ContainsFunc(scored, func(r boardRow) bool { return r.CostMicros != scored[0].CostMicros }) {
		return nil // equal costs say nothing
	}
	slices.SortStableFunc(scored, func(a, b boardRow) int {
		return cmp.Or(cmp.Compare(a.CostMicros, b.CostMicros), cmp.Compare(*b.Score, *a.Score))
	})
	y0, y1 := around(low, best)
	x0, x1 := 0.0, top*1.05
	place, label := func(v float64) float64 { return v }, "cost of a whole play, US dollars"
	powers := top >= logFrom*least
	if powers {
		// What is free stands left of the cheapest.
		x0, x1 = math.Floor(math.Log10(least)), math.Log10(top)+0.05
		if scored[0].CostMicros == 0 {
			x0--
		}
		place, label = func(v float64) float64 { return math.Log10(max(v, math.Pow(10, x0))) }, label+", by powers of ten"
	}
	c, px, py := spread("Score against cost", label, "score", x0, x1, y0, y1)
	if powers {
		for e := x0; e <= x1; e++ {
			text := "$" + trim(math.Pow(10, e))
			if e == x0 && scored[0].CostMicros == 0 {
				text = "free"
			}
			c.XTicks = append(c.XTicks, Tick{px(e), text})
		}
	} else {
		for v, step := 0.0, nice(x1, 6); v <= x1; v += step {
			c.XTicks = append(c.XTicks, Tick{px(v), trim(v)})
		}
	}
	c.Head = []string{"Submission", "Cost", "Score", "On the front"}
	c.plot.Log = powers
	c.plot.Series = []plotLine{{Label: "submission", How: "dots", Class: "dot"}, {Label: "champion", How: "dots", Class: "champion"}, {Label: "scripted", How: "dots", Class: "scripted"}, {Label: "nobody does better for less", How: "steps", Class: "dim"}}
	reached := math.Inf(-1)
	for _, r := range scored {
		class, ys := "dot", []*float64{r.Score, nil, nil, nil}
		switch {
		case r.Champion:
			class, ys = "dot champion", []*float64{nil, r.Score, nil, nil}
		case r.Scripted:
			class, ys = "dot scripted", []*float64{nil, nil, r.Score, nil}
		}
		cost, link, front := float64(r.CostMicros)/1e6, "/submissions/"+r.ID, "–"
		x, y := px(place(cost)), py(*r.Score)
		if *r.Score > reached && !r.Scripted { // a script's money is not real
			front = "yes"
			if ys[3] = r.Score; c.Path == "" {
				c.Path = "M" + strconv.Itoa(x) + " " + strconv.Itoa(y)
			} else {
				c.Path += "H" + strconv.Itoa(x) + "V" + strconv.Itoa(y)
			}
			reached = *r.Score
		} else if !math.IsInf(reached, -1) {
			at := reached
			ys[3] = &at
		}
		c.point(place(cost), r.Name, link, ys...)
		c.Rows = append(c.Rows, ChartRow{r.Name, link, []string{usd(r.CostMicros), showScore(r.Score), front}})
		c.Dots = append(c.Dots, Dot{X: x, Y: y, Class: class, Link: link, Label: plain.Line(r.Name) + ": score " + showScore(r.Score) + ", " + usd(r.CostMicros)})
	}
	if c.Path != "" {
		c.Path += "H" + strconv.Itoa(c.Right)
	}
	return c.done()
}

// around is a span that holds low and high with room at its ends: from 0 where
// that wastes less than half of it.
func around(low, high float64) (from, to float64) {
	pad := (high - low) * 0.1
	if pad == 0 {
		pad = max(math.Abs(high)*0.1, 0.05)
	}
	from, to = low-pad, high+pad
	if low >= 0 && low <= high/2 || from < 0 && low >= 0 {
		from = 0
	}
	if low >= 0 && high <= 1 && to > 1 { // most scores end at 1: no room for what cannot be
		to = 1 + (1-from)*0.03
	}
	return from, to
}

// reign is one time in the seat.
type reign struct {
	Submission string
	Name       string
	Score      float64
	Measured   string // its metric, where a replay measured one
	From       time.Time
	To         time.Time // zero: until now
}

// seatHistory draws the champion's score over time as steps; nil where it never changed.
func seatHistory(list []reign, now time.Time) *Chart {
	if len(list) < 2 {
		return nil // the table says it
	}
	x0, x1 := float64(list[0].From.UnixMilli()), float64(now.UnixMilli())
	low, best := list[0].Score, list[0].Score
	for _, r := range list {
		low, best = min(low, r.Score), max(best, r.Score)
	}
	y0, y1 := around(low, best)
	c, px, py := spread("Champion's score", "time (UTC)", "score", x0, x1, y0, y1)
	c.plot.Time, c.plot.Series = true, []plotLine{{Label: "score", How: "steps", Class: "champion"}}
	c.Head = []string{"Submission", "Since", "Score"}
	path := ""
	for i, r := range list {
		x, y := px(float64(r.From.UnixMilli())), py(r.Score)
		if i == 0 {
			path = "M" + strconv.Itoa(x) + " " + strconv.Itoa(y)
		} else {
			path += "H" + strconv.Itoa(x) + "V" + strconv.Itoa(y)
		}
		link, since := "/submissions/"+r.Submission, r.From.UTC().Format(time.RFC3339)
		c.point(float64(r.From.UnixMilli())/1000, r.Name, link, &r.Score)
		c.Rows = append(c.Rows, ChartRow{r.Name, link, []string{since, showScore(r.Score)}})
		c.Dots = append(c.Dots, Dot{X: x, Y: y, Class: "dot champion", Link: link, Label: plain.Line(r.Name) + " since " + since + ": " + showScore(r.Score)})
	}
	last := list[len(list)-1]
	c.point(x1/1000, last.Name, "/submissions/"+last.Submission, &last.Score) // it still sits
	c.Path = path + "H" + strconv.Itoa(c.Right)
	form := "01-02 15:04"
	if now.Sub(list[0].From) < time.Hour {
		form = "15:04:05"
	}
	c.XTicks = []Tick{{c.Left + 30, list[0].From.UTC().Format(form)}, {c.Right - 40, now.UTC().Format(form)}}
	return c.done()
}

// item is one name with a bar and, perhaps, a second value drawn as a dot.
type item struct {
	name, link string
	bar        float64
	dot        *float64
}

// bars draws items beside each other; no chart of none.
func bars(title, xl, yl, bar, dot string, list []item, show func(float64) string) *Chart {
	if len(list) == 0 {
		return nil
	}
	low, top := 0.0, 0.0
	for _, it := range list {
		low, top = min(low, it.bar), max(top, it.bar)
		if it.dot != nil {
			low, top = min(low, *it.dot), max(top, *it.dot)
		}
	}
	c, px, py := frame(title, xl, yl, -0.5, float64(len(list))-0.5, low, top*1.1)
	c.Head, c.plot.Series = []string{xl, bar}, []plotLine{{Label: bar, How: "bars", Class: "dot"}}
	if dot != "" {
		c.Head, c.plot.Series = append(c.Head, dot), append(c.plot.Series, plotLine{Label: dot, How: "dots", Class: "champion"})
	}
	w := max(2, (c.Right-c.Left)*7/(10*len(list)))
	every := (len(list) + chartTicks - 1) / chartTicks
	for i, it := range list {
		x, y, zero := px(float64(i)), py(it.bar), py(0)
		c.Bars = append(c.Bars, Bar{x - w/2, min(y, zero), w, max(y-zero, zero-y)})
		row, ys := ChartRow{it.name, it.link, []string{show(it.bar)}}, []*float64{&it.bar}
		if dot != "" {
			ys = append(ys, it.dot)
			cell := "–"
			if it.dot != nil {
				cell = show(*it.dot)
				c.Dots = append(c.Dots, Dot{X: x, Y: py(*it.dot), Class: "dot champion", Label: plain.Line(it.name) + ": " + dot + " " + cell})
			}
			row.Cells = append(row.Cells, cell)
		}
		c.Rows = append(c.Rows, row)
		c.point(float64(i), it.name, it.link, ys...)
		label := tickName(plain.Line(it.name))
		c.plot.Ticks = append(c.plot.Ticks, label)
		if i%every == 0 {
			c.XTicks = append(c.XTicks, Tick{x, label})
		}
	}
	return c.done()
}

// tickName is the end of a name, which tells "set/one" from "set/two".
func tickName(s string) string {
	r := []rune(s)
	for i := len(r) - 2; i >= 0; i-- {
		if r[i] == '/' {
			r = r[i+1:]
			break
		}
	}
	if len(r) > tickLen {
		r = append(r[:tickLen-1:tickLen-1], '…')
	}
	return string(r)
}

// taskMeans draws how well each task was done.
func taskMeans(rows []taskRow) *Chart {
	var list []item
	for _, r := range rows {
		if r.Stat != nil {
			list = append(list, item{name: r.Key, bar: r.Stat.Mean})
		}
	}
	return bars("Mean score by task", "task", "score", "mean", "", list, func(v float64) string { return showScore(v) })
}

// work draws what validators played, and how much of it failed through us.
func work(list []store.ValidatorStat) *Chart {
	if len(list) < 2 {
		return nil // the table says it
	}
	var out []item
	for _, v := range list {
		ours := float64(v.Ours)
		out = append(out, item{name: short(v.Validator), bar: float64(v.Attempts), dot: &ours})
	}
	return bars("Attempts by validator", "validator", "attempts", "attempts", "our faults", out, trim)
}

// Whisker draws a band of 0..1 on a strip of 120 units.
type Whisker struct{ Low, High, Mean int }

const whiskerW = 120

func whisker(low, mean, high float64) Whisker {
	at := func(v float64) int { return int(math.Round(min(max(v, 0), 1) * whiskerW)) }
	return Whisker{at(low), at(high), at(mean)}
}
