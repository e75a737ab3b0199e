package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// The top of a run's page: what happened, in words made of facts.

// readStory is how many events of an attempt the top of its page reads.
const readStory = 1000

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
	d.Timeline = timelineOf(evs, d.Attempt, q.URL.Query().Get("t"))
	if d.Timeline != nil {
		d.Timeline.Cut = d.Total > int64(len(evs))
	}
	d.Story, d.Terminal = storyOf(d, evs), terminalOf(evs)
	a, err := s.cfg.Platform.Arena(ctx, d.Run.Arena)
	if err != nil {
		return err
	}
	d.Part = s.runPart(ctx, a.Kind, RunView{Run: d.Run, Events: evs})
	return nil
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
