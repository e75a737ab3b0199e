package corpus

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Filter is the part of a build that looks at one run at a time: conversation,
// scrubbing, axis, structure, token limit, duplicates. It is for one goroutine.
type Filter struct {
	b     *builder
	calls map[string]bool
	near  *index
}

// Filtered is what a filter says of a run; Reason is empty for a row.
type Filtered struct {
	Axis   Axis    `json:"axis"`
	Ratio  float64 `json:"ratio"`
	Reason string  `json:"reason"`
}

// NewFilter returns a filter that has seen nothing yet.
func NewFilter() *Filter {
	return &Filter{b: &builder{ctx: context.Background(), report: newReport(), scrub: NewScrubber()}, calls: map[string]bool{}, near: newIndex()}
}

// Run filters the log of the first attempt of a run with one task.
func (f *Filter) Run(kind string, events []agon.Event) Filtered {
	if len(events) == 0 {
		return Filtered{Reason: RejectCut}
	}
	e := events[0]
	t := agon.TaskRef{Key: e.Task}
	r := &client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: e.Run, Tasks: []agon.TaskRef{t}}}}
	row, reason := f.b.row(&client.Arena{Arena: agon.Arena{Kind: kind}}, r, &client.Submission{}, agon.Attempt{N: e.Attempt}, t, events)
	if reason != "" {
		return Filtered{Reason: reason}
	}
	out := Filtered{Axis: row.Axis, Ratio: row.Ratio}
	calls := agon.Sum([]byte(row.callSequence())).Hex()
	switch {
	case f.calls[calls]:
		out.Reason = RejectDuplicate
	case len(f.near.like(signature(shingles(row.text(), shingleWords)), NearDuplicate)) > 0:
		out.Reason = RejectNear
	}
	f.calls[calls] = true
	return out
}
