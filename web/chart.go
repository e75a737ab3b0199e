package web

import (
	"math"
	"strconv"
	"time"
)

// Charts are drawn on the server as SVG, so that they stand without any
// script; the numbers stand in a table beside each.

// Chart is a drawing of W by H units with axes.
type Chart struct {
	Title          string
	W, H           int
	XLabel, YLabel string
	XTicks, YTicks []Tick
	Dots           []Dot
	Path           string // of a line, SVG path data
	Left, Bottom   int    // where the axes cross
	Right, Top     int
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

const chartW, chartH = 640, 260

// frame makes an empty chart and the functions that place values in it.
func frame(title, xl, yl string, x0, x1, y0, y1 float64) (c *Chart, px, py func(float64) int) {
	c = &Chart{Title: title, W: chartW, H: chartH, XLabel: xl, YLabel: yl, Left: 56, Right: chartW - 14, Top: 14, Bottom: chartH - 40}
	if x1 <= x0 {
		x1 = x0 + 1
	}
	if y1 <= y0 {
		y1 = y0 + 1
	}
	px = func(v float64) int { return c.Left + int(math.Round((v-x0)/(x1-x0)*float64(c.Right-c.Left))) }
	py = func(v float64) int { return c.Bottom - int(math.Round((v-y0)/(y1-y0)*float64(c.Bottom-c.Top))) }
	step := nice(y1-y0, 5)
	for v := math.Ceil(y0/step) * step; v <= y1+step/1e6; v += step {
		c.YTicks = append(c.YTicks, Tick{py(v), trim(v)})
	}
	return c, px, py
}

func trim(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// scoreCost draws submissions by what they cost and what they reached.
func scoreCost(rows []boardRow) *Chart {
	top, best := 0.0, 0.0
	n := 0
	for _, r := range rows {
		if r.Score != nil {
			top, best = max(top, float64(r.CostMicros)/1e6), max(best, *r.Score)
			n++
		}
	}
	if n < 2 {
		return nil
	}
	if top == 0 {
		top = 1e-6
	}
	c, px, py := frame("Score against cost", "cost of a whole play, US dollars", "score", 0, top*1.05, 0, math.Max(best*1.1, 0.1))
	step := nice(top*1.05, 6)
	for v := 0.0; v <= top*1.05; v += step {
		c.XTicks = append(c.XTicks, Tick{px(v), trim(v)})
	}
	for _, r := range rows {
		if r.Score == nil {
			continue
		}
		class := "dot"
		switch {
		case r.Champion:
			class = "dot champion"
		case r.Scripted:
			class = "dot scripted"
		}
		c.Dots = append(c.Dots, Dot{
			X: px(float64(r.CostMicros) / 1e6), Y: py(*r.Score), Class: class, Link: "/submissions/" + r.ID,
			Label: r.Name + ": score " + showScore(r.Score) + ", " + usd(r.CostMicros),
		})
	}
	return c
}

// reign is one time in the seat.
type reign struct {
	Submission string
	Score      float64
	From       time.Time
	To         time.Time // zero: until now
}

// seatHistory draws the score in the seat over time as steps.
func seatHistory(list []reign, now time.Time) *Chart {
	if len(list) == 0 {
		return nil
	}
	x0, x1 := float64(list[0].From.UnixMilli()), float64(now.UnixMilli())
	best := 0.0
	for _, r := range list {
		best = max(best, r.Score)
	}
	c, px, py := frame("Score in the seat", "time", "score", x0, x1, 0, math.Max(best*1.1, 0.1))
	path := ""
	for i, r := range list {
		x, y := px(float64(r.From.UnixMilli())), py(r.Score)
		if i == 0 {
			path = "M" + strconv.Itoa(x) + " " + strconv.Itoa(y)
		} else {
			path += "H" + strconv.Itoa(x) + "V" + strconv.Itoa(y)
		}
		c.Dots = append(c.Dots, Dot{X: x, Y: y, Class: "dot champion", Link: "/submissions/" + r.Submission, Label: "since " + r.From.UTC().Format(time.RFC3339) + ": " + showScore(r.Score)})
	}
	c.Path = path + "H" + strconv.Itoa(c.Right)
	c.XTicks = []Tick{{c.Left, list[0].From.UTC().Format("01-02 15:04")}, {c.Right - 40, now.UTC().Format("01-02 15:04")}}
	return c
}

// Whisker draws a band of 0..1 on a strip of 120 units.
type Whisker struct{ Low, High, Mean int }

const whiskerW = 120

func whisker(low, mean, high float64) Whisker {
	at := func(v float64) int { return int(math.Round(min(max(v, 0), 1) * whiskerW)) }
	return Whisker{at(low), at(high), at(mean)}
}
