package web

import (
	"math"
	"strconv"
	"time"

	"github.com/agon-arena/agon/internal/plain"
)

// Mark is one value that somebody reached, at a time.
type Mark struct {
	Name, Link string
	At         time.Time
	Value      float64
}

// Level is a value that a chart names by a line across it.
type Level struct {
	Name  string
	Value float64
}

// RecordChart draws records over time as steps, the oldest first, with levels to
// compare them with; nil without a record. Its axis holds the values and not 0,
// as a record may be a fraction better than the one before.
func RecordChart(title, unit string, marks []Mark, levels []Level, now time.Time) *Chart {
	if len(marks) == 0 {
		return nil
	}
	low, high := marks[0].Value, marks[0].Value
	for _, m := range marks {
		low, high = min(low, m.Value), max(high, m.Value)
	}
	for _, l := range levels {
		low, high = min(low, l.Value), max(high, l.Value)
	}
	room := (high - low) / 10
	if room == 0 {
		room = max(math.Abs(high)/10, 1e-9)
	}
	x0, x1 := float64(marks[0].At.UnixMilli()), float64(now.UnixMilli())
	c, px, py := spread(title, "time", unit, x0, x1, low-room, high+room)
	c.plot.Time, c.plot.Series = true, []plotLine{{Label: unit, How: "steps", Class: "champion"}}
	c.Head = []string{"Submission", "Since", unit}
	path := ""
	for i, m := range marks {
		x, y := px(float64(m.At.UnixMilli())), py(m.Value)
		if i == 0 {
			path = "M" + strconv.Itoa(x) + " " + strconv.Itoa(y)
		} else {
			path += "H" + strconv.Itoa(x) + "V" + strconv.Itoa(y)
		}
		since := m.At.UTC().Format(time.RFC3339)
		c.point(float64(m.At.UnixMilli())/1000, m.Name, m.Link, &m.Value)
		c.Rows = append(c.Rows, ChartRow{m.Name, m.Link, []string{since, trim(m.Value)}})
		c.Dots = append(c.Dots, Dot{X: x, Y: y, Class: "dot champion", Link: m.Link, Label: plain.Line(m.Name) + " since " + since + ": " + trim(m.Value)})
	}
	last := marks[len(marks)-1]
	c.point(x1/1000, last.Name, last.Link, &last.Value) // it still stands
	c.Path = path + "H" + strconv.Itoa(c.Right)
	for i, l := range levels {
		c.Levels = append(c.Levels, Tick{py(l.Value), plain.Line(l.Name) + " " + trim(l.Value)})
		c.Rows = append(c.Rows, ChartRow{l.Name, "", []string{"", trim(l.Value)}})
		v := l.Value
		line := plotLine{Label: plain.Line(l.Name), How: "steps", Class: "level"}
		if i%2 == 1 { // two levels side by side are told apart by their colour
			line.Class = "other"
		}
		for range c.plot.X {
			line.Y = append(line.Y, &v)
		}
		c.plot.Series = append(c.plot.Series, line)
	}
	c.XTicks = []Tick{{c.Left + 30, marks[0].At.UTC().Format("01-02 15:04")}, {c.Right - 40, now.UTC().Format("01-02 15:04")}}
	return c.done()
}
