package web

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/plain"
)

// A timeline draws an attempt: a lane for each sort of work over time, and one for
// the money that was spent by then. ?t=1500-4000 shows these milliseconds of it only.

// timeline is drawn as SVG of W by H units, time between Left and Right.
type timeline struct {
	W, H, Left, Right int
	Lanes             []lane
	Money             *moneyLane // nil: nothing was spent
	Ticks             []Tick
	Cut               bool // the attempt has more events
	// From, To are the milliseconds shown, since its first piece of work; Zoomed: there are more.
	From, To int64
	Zoomed   bool
	Attempt  int
	Closer   []piecework // between two ticks each: they narrow what is shown to that
	Windows  []window    // that one may want to see
}

// window is a link to a part of a timeline.
type window struct{ Name, Link string }

type lane struct {
	Name string
	Y    int
	Bars []piecework
}

// moneyLane is what was spent by each time, as bars as high as the sum.
type moneyLane struct {
	Y, H int
	All  string
	Bars []moneyBar
}

type moneyBar struct {
	piecework
	Y, H int
}

// piecework is one piece of work on a lane.
type piecework struct {
	X, W  int
	Class string
	Label string
	Link  string
}

// piece is a piece of work before it is drawn.
type piece struct {
	lane     int
	from, to time.Time
	class    string
	cost     agon.Micros
	seq      int64
	title    string
}

var laneNames = []string{"phases", "boxes", "models", "tools", "output"}

// pieces turns events into pieces of work.
func pieces(evs []agon.Event) (out []piece) {
	open := map[string]time.Time{} // boxes, by role
	phase, since := "", time.Time{}
	var phaseAt agon.Event
	add := func(e agon.Event, lane int, from, to time.Time, class, title string, cost agon.Micros) {
		out = append(out, piece{lane: lane, from: from, to: to, class: class, title: title, cost: cost, seq: e.Seq})
	}
	for _, e := range evs {
		var d struct {
			Phase, Action, Role string
			MS                  int64         `json:"ms"`
			Receipt             *agon.Receipt `json:"receipt"`
			Tool                *struct {
				Tool    string
				Outcome string
				Issued  time.Time   `json:"issued_at"`
				Elapsed int64       `json:"elapsed_ms"`
				Cost    agon.Micros `json:"cost_micros"`
			}
		}
		_ = json.Unmarshal(e.Data, &d) // what does not parse is drawn at its time
		switch e.Type {
		case agon.EventPhase:
			if phase != "" {
				add(phaseAt, 0, since, e.At, "p-"+strconv.Itoa(len(out)%2), phase, 0)
			}
			phase, since, phaseAt = plain.Line(d.Phase), e.At, e
		case agon.EventBox:
			role := plain.Line(d.Role)
			if d.Action == "start" {
				open[role] = e.At.Add(-time.Duration(d.MS) * time.Millisecond)
			} else if from, ok := open[role]; ok {
				add(e, 1, from, e.At, "l-box", "box "+role, 0)
				delete(open, role)
			}
		case agon.EventModel, agon.EventTool:
			lane, class := 2, "l-model"
			if e.Type == agon.EventTool {
				lane, class = 3, "l-tool"
			}
			switch {
			case d.Receipt != nil && !d.Receipt.Start.IsZero():
				if d.Receipt.Outcome != "ok" {
					class = "l-bad"
				}
				add(e, lane, d.Receipt.Start, d.Receipt.End, class, plain.Line(d.Receipt.Model), d.Receipt.Cost)
			case d.Tool != nil && !d.Tool.Issued.IsZero():
				if d.Tool.Outcome != "ok" {
					class = "l-bad"
				}
				if d.Tool.Tool == tools.LLMChat {
					d.Tool.Cost = 0 // the gateway counts the call, which has an event of its own
				}
				add(e, lane, d.Tool.Issued, d.Tool.Issued.Add(time.Duration(d.Tool.Elapsed)*time.Millisecond), class, plain.Line(d.Tool.Tool), d.Tool.Cost)
			default:
				add(e, lane, e.At, e.At, class, strings.ReplaceAll(e.Type, "_", " "), 0)
			}
		case agon.EventOutput:
			add(e, 4, e.At, e.At, "l-out", "output", 0)
		case agon.EventRefused:
			add(e, 3, e.At, e.At, "l-bad", "refused", 0)
		}
	}
	return out
}

const (
	timelineW, timelineLeft = 1000, 70
	timelineRight           = timelineW - 10
	laneH, moneyH           = 22, 40
	leastShown              = 2 // ms of a window
)

// timelineOf draws the pieces of an attempt, or those of the milliseconds that t
// names ("FROM-TO"); nil where there is nothing to see.
func timelineOf(evs []agon.Event, attempt int, t string) *timeline {
	list := pieces(evs)
	if len(list) < 2 {
		return nil
	}
	from, to := list[0].from, list[0].to
	for _, p := range list {
		if p.from.Before(from) {
			from = p.from
		}
		if p.to.After(to) {
			to = p.to
		}
	}
	if to.Sub(from) <= 0 {
		return nil
	}
	whole := max(leastShown, int64(math.Ceil(float64(to.Sub(from))/float64(time.Millisecond))))
	d := &timeline{W: timelineW, Left: timelineLeft, Right: timelineRight, Attempt: attempt, To: whole}
	if x, y, ok := windowOf(t, whole); ok {
		d.From, d.To, d.Zoomed = x, y, true
	}
	start, stop := from.Add(time.Duration(d.From)*time.Millisecond), from.Add(time.Duration(d.To)*time.Millisecond)
	px := func(at time.Time) int {
		part := float64(at.Sub(start)) / float64(stop.Sub(start))
		return timelineLeft + int(math.Round(min(max(part, 0), 1)*(timelineRight-timelineLeft)))
	}
	for i, name := range laneNames {
		l := lane{Name: name, Y: len(d.Lanes) * laneH}
		for _, p := range list {
			if p.lane != i || p.to.Before(start) || p.from.After(stop) {
				continue
			}
			x := px(p.from)
			label := p.title + ", " + showMS(p.to.Sub(p.from).Milliseconds())
			if p.cost > 0 {
				label += ", " + usd(p.cost)
			}
			l.Bars = append(l.Bars, piecework{X: x, W: max(2, px(p.to)-x), Class: p.class, Label: label, Link: d.step(p.seq)})
		}
		if len(l.Bars) > 0 {
			d.Lanes = append(d.Lanes, l)
		}
	}
	d.H = len(d.Lanes) * laneH
	if d.Money = d.money(list, start, stop, px); d.Money != nil {
		d.H += moneyH + 6
	}
	d.H += 18
	at := func(ms float64) time.Time { return from.Add(time.Duration(ms * float64(time.Millisecond))) }
	step := nice(float64(d.To-d.From)/1000, 8) * 1000
	for v := math.Ceil(float64(d.From)/step) * step; v <= float64(d.To); v += step {
		d.Ticks = append(d.Ticks, Tick{px(at(v)), trim(v/1000) + " s"})
		if next := min(v+step, float64(d.To)); step >= 2*leastShown && next > v {
			x := px(at(v))
			d.Closer = append(d.Closer, piecework{X: x, W: px(at(next)) - x, Label: "look closer: " + trim(v/1000) + " s to " + trim(next/1000) + " s", Link: d.at(int64(v), int64(next))})
		}
	}
	d.windows(list, from, whole)
	return d
}

// windowOf reads the milliseconds "FROM-TO" within the whole.
func windowOf(t string, whole int64) (from, to int64, ok bool) {
	a, b, ok := strings.Cut(t, "-")
	from, err1 := strconv.ParseInt(a, 10, 64)
	to, err2 := strconv.ParseInt(b, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, false
	}
	if to = min(to, whole); from < 0 || to-from < leastShown || from == 0 && to == whole {
		return 0, 0, false
	}
	return from, to, true
}

// at is the link to a part of the timeline.
func (d *timeline) at(from, to int64) string {
	return fmt.Sprintf("?attempt=%d&t=%d-%d#timeline", d.Attempt, from, to)
}

// step is the link to a step; the timeline stays as it is shown.
func (d *timeline) step(seq int64) string {
	t := ""
	if d.Zoomed {
		t = fmt.Sprintf("&t=%d-%d", d.From, d.To)
	}
	return fmt.Sprintf("?attempt=%d&step=%d%s#s%d.%d", d.Attempt, seq, t, d.Attempt, seq)
}

// money is the lane of what was spent by each time; nil where nothing was.
func (d *timeline) money(list []piece, start, stop time.Time, px func(time.Time) int) *moneyLane {
	paid := slices.DeleteFunc(slices.Clone(list), func(p piece) bool { return p.cost <= 0 })
	slices.SortStableFunc(paid, func(a, b piece) int { return a.to.Compare(b.to) })
	all := agon.Micros(0)
	for _, p := range paid {
		all += p.cost
	}
	if all == 0 {
		return nil
	}
	m := &moneyLane{Y: len(d.Lanes)*laneH + 3, H: moneyH, All: usd(all)}
	sum := agon.Micros(0)
	for i, p := range paid {
		sum += p.cost
		end := stop
		if i+1 < len(paid) {
			end = paid[i+1].to
		}
		if end.Before(start) || p.to.After(stop) {
			continue
		}
		x, h := px(p.to), max(1, int(math.Round(float64(sum)/float64(all)*moneyH)))
		m.Bars = append(m.Bars, moneyBar{piecework{X: x, W: max(1, px(end)-x), Label: usd(sum) + " by then; " + p.title + " cost " + usd(p.cost), Link: d.step(p.seq)}, m.Y + moneyH - h, h})
	}
	return m
}

// windows links to the whole, to what stands beside the part that is shown, to its
// halves, and to each phase.
func (d *timeline) windows(list []piece, from time.Time, whole int64) {
	add := func(name string, x, y int64) {
		if x, y = max(x, 0), min(y, whole); y-x >= leastShown && (x != d.From || y != d.To) {
			d.Windows = append(d.Windows, window{name, d.at(x, y)})
		}
	}
	span := d.To - d.From
	if d.Zoomed {
		d.Windows = append(d.Windows, window{"the whole", fmt.Sprintf("?attempt=%d#timeline", d.Attempt)})
		add("wider", d.From-span/2, d.To+span/2)
		if d.From > 0 {
			add("← earlier", max(d.From-span, 0), max(d.From-span, 0)+span)
		}
		if d.To < whole {
			add("later →", min(d.To, whole-span), min(d.To+span, whole))
		}
	}
	add("first half", d.From, d.From+span/2)
	add("second half", d.From+span/2, d.To)
	for _, p := range list {
		if p.lane == 0 {
			add(p.title, p.from.Sub(from).Milliseconds(), p.to.Sub(from).Milliseconds()+1)
		}
	}
}
