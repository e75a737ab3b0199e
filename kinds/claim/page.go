package claim

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed run.html
var runHTML string

//go:embed rounds.html
var roundsHTML string

// page shows of an arena its rounds, and of a run what was answered to each claim
// and what was wanted.
func page(open *rounds.Open) *web.Part {
	data := func(ctx context.Context, arena string) any {
		if s := open.Shown(ctx, arena); s != nil {
			return s
		}
		return nil
	}
	return &web.Part{HTML: roundsHTML, Data: data, Run: runHTML, RunData: func(_ context.Context, v web.RunView) any {
		var out []play.Answer
		for _, e := range v.Events {
			var a play.Answer
			if e.Type == agon.EventNote && json.Unmarshal(e.Data, &a) == nil && a.Text == play.NoteAnswer {
				out = append(out, a)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}}
}
