package research

import (
	"context"
	_ "embed"
	"math"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed board.html
var boardHTML string

// recordPage is what a board shows of the ledger of bests.
type recordPage struct {
	*coordinator.Book
	Chart  *web.Chart
	Better string // "lower" or "higher"
	Newest recordTable
	Before recordTable // older ones, folded away
	Left   string      // how far the newest is from the best known; empty: not known
}

// recordTable is a table of records, the oldest first.
type recordTable struct {
	Metric, Label string
	Rows          []coordinator.BookEntry
}

// page shows the records of an arena over time, beside what is known elsewhere.
func page(c *coordinator.Coordinator, now func() time.Time) *web.Part {
	return &web.Part{First: true, HTML: boardHTML, Run: runHTML, RunData: runData(c), Data: func(ctx context.Context, arena string) any {
		b, err := c.Book(ctx, arena)
		if err != nil || b == nil {
			return nil
		}
		return newRecordPage(b, now())
	}}
}

// shownRecords is how many records a board shows without a click.
const shownRecords = 10

func newRecordPage(b *coordinator.Book, now time.Time) *recordPage {
	p := &recordPage{Book: b, Better: "higher"}
	if b.Direction == agon.Minimize {
		p.Better = "lower"
	}
	levels := []web.Level{{Name: "the base", Value: b.Baseline}}
	if b.BestKnown != nil {
		levels = append(levels, web.Level{Name: "best known", Value: *b.BestKnown})
	}
	var marks []web.Mark
	for _, e := range b.Entries {
		marks = append(marks, web.Mark{Name: title(e), Link: "/submissions/" + e.Submission, At: e.At.Time, Value: e.Value})
	}
	p.Chart = web.RecordChart("Records", b.Metric, marks, levels, now)
	cut := max(0, len(b.Entries)-shownRecords)
	p.Before = recordTable{Metric: b.Metric, Label: "Records before", Rows: b.Entries[:cut]}
	p.Newest = recordTable{Metric: b.Metric, Label: "Records", Rows: b.Entries[cut:]}
	if n := len(b.Entries); n > 0 && b.BestKnown != nil {
		p.Left = against(b.Entries[n-1].Value, *b.BestKnown, b.Direction)
	}
	return p
}

// title is a record's summary, or its number where the miner gave none.
func title(e coordinator.BookEntry) string {
	if e.Summary != "" {
		return firstLine(e.Summary, 80)
	}
	return "record " + e.Submission
}

func firstLine(s string, most int) string {
	for i, r := range s {
		if r == '\n' || i >= most {
			return s[:i]
		}
	}
	return s
}

// against says how a value compares with the best known one.
func against(v, known float64, direction string) string {
	gap := v - known
	if direction == agon.Maximize {
		gap = -gap
	}
	switch share := math.Abs(gap) / math.Max(math.Abs(known), 1e-12); {
	case gap < 0:
		return "better than the best known"
	case gap == 0:
		return "equal to the best known"
	case share < 0.001:
		return "within 0.1 % of the best known"
	default:
		return strconv.FormatFloat(100*share, 'f', 1, 64) + " % from the best known"
	}
}
