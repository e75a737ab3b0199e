package research

import (
	"context"
	_ "embed"
	"math"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed run.html
var runHTML string

// replayPage is what a run's page shows of its replay.
type replayPage struct {
	play.Replay
	Withheld   bool // the reader may not see what the replay printed
	Submission string
	Better     string // "lower" or "higher"
	Pairs      []pairRow
	Won        int
	// Lineage are the records before, the base first, and this submission's own.
	Lineage []ancestor
	Older   int // records that are left out
}

// pairRow is a pair of a duel; the strip is 120 units wide.
type pairRow struct {
	play.DuelPair
	Gain        float64 // in the metric's direction: above 0 the challenger is better
	Mine, Other int
}

// ancestor is a record of the task, or its base.
type ancestor struct {
	Number           int // 0: the base
	Submission, What string
	Value            float64
	Own              bool
}

// maxLineage bounds the records of a run's page.
const maxLineage = 12

// runData reads what the replay left as a note, and which records came before it.
func runData(c *coordinator.Coordinator) func(context.Context, web.RunView) any {
	return func(ctx context.Context, v web.RunView) any {
		var n play.Replay
		withheld := !v.Note(play.NoteReplay, "", &n)
		if withheld && !v.Run.State.Final() {
			return nil
		}
		p := newReplayPage(n)
		p.Withheld, p.Submission = withheld, v.Run.Submission
		if b, err := c.Book(ctx, v.Run.Arena); err == nil && b != nil {
			p.line(b, v.Run.Submission)
		}
		return p
	}
}

func newReplayPage(n play.Replay) *replayPage {
	p := &replayPage{Replay: n, Better: "higher"}
	sign := 1.0
	if n.Direction == agon.Minimize {
		p.Better, sign = "lower", -1
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, d := range n.Duel {
		low, high = min(low, d.Challenger, d.Incumbent), max(high, d.Challenger, d.Incumbent)
	}
	at := func(x float64) int {
		if high <= low {
			return 60
		}
		return int(math.Round(120 * (x - low) / (high - low)))
	}
	for _, d := range n.Duel {
		r := pairRow{DuelPair: d, Gain: sign * (d.Challenger - d.Incumbent), Mine: at(d.Challenger), Other: at(d.Incumbent)}
		if r.Gain > 0 {
			p.Won++
		}
		p.Pairs = append(p.Pairs, r)
	}
	return p
}

// line fills in the records up to the submission's own, or all that there are.
func (p *replayPage) line(b *coordinator.Book, submission string) {
	all := []ancestor{{What: "the unpatched base", Value: b.Baseline}}
	for _, e := range b.Entries {
		all = append(all, ancestor{Number: e.Number, Submission: e.Submission, What: title(e), Value: e.Value, Own: e.Submission == submission})
		if e.Submission == submission {
			break
		}
	}
	p.Older = b.More
	if n := len(all) - maxLineage; n > 0 {
		p.Older += n
		all = append(all[:1:1], all[n+1:]...)
	}
	p.Lineage = all
}
