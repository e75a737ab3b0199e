package harbor

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed run.html
var runHTML string

// page shows of a run which files the agent has added, changed and deleted.
func page() *web.Part {
	return &web.Part{Run: runHTML, RunData: func(_ context.Context, v web.RunView) any {
		var out []workNote
		for _, e := range v.Events {
			var n workNote
			if e.Type == agon.EventNote && json.Unmarshal(e.Data, &n) == nil && n.Text == noteWork {
				out = append(out, n)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}}
}
