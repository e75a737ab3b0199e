package shopping

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed run.html
var runHTML string

// page shows of a run what was bought for each wish, beside what was wanted.
func page() *web.Part {
	return &web.Part{Run: runHTML, RunData: func(_ context.Context, v web.RunView) any {
		at := map[string]int{} // a problem that was judged twice shows the last
		var out []play.Basket
		for _, e := range v.Events {
			var b play.Basket
			if e.Type != agon.EventNote || json.Unmarshal(e.Data, &b) != nil || b.Text != play.NoteBasket {
				continue
			}
			if i, ok := at[b.Task]; ok {
				out[i] = b
				continue
			}
			at[b.Task] = len(out)
			out = append(out, b)
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}}
}
