package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

// zeroRuns are read of a submission to learn why tasks scored 0.
const zeroRuns = 100

// zeros says why tasks of a submission scored 0, for a person; a machine reads the runs.
func (a *App) zeros(ctx context.Context, c *client.Client, submission string) ([]client.Reason, error) {
	if a.Printer.Machine() {
		return nil, nil
	}
	page, err := c.Runs(ctx, "", submission, "", client.ListOptions{Limit: zeroRuns})
	if err != nil {
		return nil, err
	}
	return client.Zeros(page.Items), nil
}

func zerosHuman(h *output.Human, zeros []client.Reason) {
	for _, z := range zeros {
		h.Line("%d × scored 0: %s", z.N, z.Text)
	}
}

// shownVerdicts is of how many rows without a point a board says what their judge found.
const shownVerdicts = 5

// verdicts adds to rows whose runs ended well and scored 0 what their judge found most often.
func (a *App) verdicts(ctx context.Context, c *client.Client, rows []client.BoardRow) error {
	n := 0
	for i, r := range rows {
		if a.Printer.Machine() || n == shownVerdicts || !strings.HasSuffix(r.Zero, "should and scored 0") {
			continue
		}
		n++
		zeros, err := a.zeros(ctx, c, r.ID)
		if err != nil {
			return err
		}
		if len(zeros) > 0 {
			rows[i].Zero += ": " + zeros[0].Text
		}
	}
	return nil
}

// reason says in one line why s stands where it stands.
func reason(s *client.Submission) string {
	d := s.Decision
	if d == nil {
		return ""
	}
	if d.Sentence != "" {
		return d.Sentence + " (rule " + d.Rule + ")"
	}
	out := "kept out" // a server that says no sentences
	if d.Outcome == agon.TookSeat {
		out = "took the seat"
	}
	switch {
	case d.Bar != nil:
		out += fmt.Sprintf(": score %.6g against a bar of %.6g", d.Score, *d.Bar)
	default:
		out += fmt.Sprintf(": score %.6g, no incumbent", d.Score)
	}
	return out + " (rule " + d.Rule + ")"
}
