package web

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// The top of a run's page: what happened in words made of facts, and when, drawn.

// readStory is how many events of an attempt the top of its page reads.
const readStory = 1000

// timeline draws an attempt: a lane for each sort of work, over time.
type timeline struct {
	W, H  int
	Lanes []lane
	Ticks []Tick
	Cut   bool // the attempt has more events
}

type lane struct {
	Name string
	Y    int
	Bars []piecework
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
	lane       int
	from, to   time.Time
	class      string
	cost       agon.Micros
	attempt    int
	seq        int64
	title, run string
}

var laneNames = []string{"phases", "boxes", "models", "tools", "output"}

// story reads the events of an attempt for the top of its page.
func (s *server) story(ctx context.Context, q *request, d *runData) error {
	if d.Attempt == 0 {
		return nil
	}
	var evs []agon.Event
	for seq := int64(0); len(evs) < readStory; {
		list, err := s.cfg.Platform.Events(ctx, q.caller, d.Run.Run.Run, d.Attempt, seq, 500)
		if err != nil {
			return err
		}
		more := len(list) == 500
		for _, e := range list {
			if e.Attempt != d.Attempt {
				more = false
				break
			}
			evs, seq = append(evs, e), e.Seq
		}
		if !more {
			break
		}
	}
	d.Timeline = timelineOf(evs, d.Total > int64(len(evs)))
	d.Story, d.Terminal = storyOf(d, evs), terminalOf(evs)
	a, err := s.cfg.Platform.Arena(ctx, d.Run.Arena)
	if err != nil {
		return err
	}
	d.Part = s.runPart(ctx, a.Kind, RunView{Run: d.Run, Events: evs})
	return nil
}

// pieces turns events into pieces of work.
func pieces(evs []agon.Event) (out []piece) {
	open := map[string]time.Time{} // boxes, by role
	phase, since := "", time.Time{}
	var phaseAt agon.Event
	add := func(e agon.Event, lane int, from, to time.Time, class, title string, cost agon.Micros) {
		out = append(out, piece{lane: lane, from: from, to: to, class: class, title: title, cost: cost, attempt: e.Attempt, seq: e.Seq, run: e.Run})
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
	laneH                   = 22
)

// timelineOf draws the pieces of an attempt; nil where there is nothing to see.
func timelineOf(evs []agon.Event, cut bool) *timeline {
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
	whole := to.Sub(from)
	if whole <= 0 {
		return nil
	}
	t := &timeline{W: timelineW, Cut: cut}
	px := func(at time.Time) int {
		return timelineLeft + int(math.Round(float64(at.Sub(from))/float64(whole)*(timelineW-timelineLeft-10)))
	}
	for i, name := range laneNames {
		l := lane{Name: name, Y: len(t.Lanes) * laneH}
		for _, p := range list {
			if p.lane != i {
				continue
			}
			x := px(p.from)
			label := p.title + ", " + showMS(p.to.Sub(p.from).Milliseconds())
			if p.cost > 0 {
				label += ", " + usd(p.cost)
			}
			l.Bars = append(l.Bars, piecework{X: x, W: max(2, px(p.to)-x), Class: p.class, Label: label, Link: fmt.Sprintf("?attempt=%d&step=%d#s%d.%d", p.attempt, p.seq, p.attempt, p.seq)})
		}
		if len(l.Bars) > 0 {
			t.Lanes = append(t.Lanes, l)
		}
	}
	t.H = len(t.Lanes)*laneH + 18
	step := nice(whole.Seconds(), 8)
	for v := 0.0; v <= whole.Seconds(); v += step {
		t.Ticks = append(t.Ticks, Tick{px(from.Add(time.Duration(v * float64(time.Second)))), trim(v) + " s"})
	}
	return t
}

// storyOf says in words what happened in an attempt.
func storyOf(d *runData, evs []agon.Event) string {
	var b strings.Builder
	name, what := plain.Line(d.Sub.Name), "on "+plain.Line(d.Row.Task)
	if !d.Run.State.Final() {
		fmt.Fprintf(&b, "%s is %s %s.", name, d.Run.State, what)
		return b.String()
	}
	var box time.Duration
	models, tools, refused, cost := 0, 0, 0, agon.Micros(0)
	for _, e := range evs {
		switch e.Type {
		case agon.EventModel:
			models++
		case agon.EventTool:
			tools++
		case agon.EventRefused:
			refused++
		}
	}
	for _, c := range d.Counts { // all of them, where the events that were read are cut
		switch c.Name {
		case agon.EventModel:
			models = max(models, c.N)
		case agon.EventTool:
			tools = max(tools, c.N)
		}
	}
	for _, a := range d.Attempts {
		if a.Open {
			box, cost = time.Duration(a.BoxMS)*time.Millisecond, a.CostMicros
		}
	}
	fmt.Fprintf(&b, "%s was played %s: it made ", name, what)
	switch {
	case models+tools == 0:
		b.WriteString("no call of a model or a tool")
	case tools == 0:
		b.WriteString(plain.Count(models, "model call"))
	case models == 0:
		b.WriteString(plain.Count(tools, "tool call"))
	default:
		b.WriteString(plain.Count(models, "model call") + " and " + plain.Count(tools, "tool call"))
	}
	if refused > 0 {
		fmt.Fprintf(&b, " (%d more were refused)", refused)
	}
	fmt.Fprintf(&b, ", spent %s and %s in boxes.", usd(cost), showMS(box.Milliseconds()))
	switch {
	case d.Run.State != agon.RunScored && d.Run.Fault.Ours():
		b.WriteString(" It failed on our side and counts for nothing.")
	case d.Run.State != agon.RunScored:
		fmt.Fprintf(&b, " It ended as %s.", d.Run.State)
	case len(d.Run.Scores) == 1:
		sc := d.Run.Scores[0]
		verb := "It did not solve the task"
		if sc.Solved {
			verb = "It solved the task"
		}
		fmt.Fprintf(&b, " %s and scored %s", verb, showScore(sc.Value))
		if sc.Detail != "" {
			b.WriteString(": " + plain.Short(plain.Line(sc.Detail), 300))
		}
		b.WriteString(".")
	case len(d.Run.Scores) > 1:
		solved := 0
		for _, sc := range d.Run.Scores {
			if sc.Solved {
				solved++
			}
		}
		fmt.Fprintf(&b, " It solved %d of %s and scored %s.", solved, plain.Count(len(d.Run.Scores), "task"), showScore(d.Row.Value))
	}
	if d.Run.Reason != "" && d.Run.Fault != agon.FaultNone {
		fmt.Fprintf(&b, " %s.", strings.TrimSuffix(plain.Short(plain.Line(d.Run.Reason), 300), "."))
	}
	return b.String()
}
