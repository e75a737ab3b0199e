package pack

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/agon-arena/agon"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed run.html
var runHTML string

// touched is one call of an office tool.
type touched struct{ Tool, Arguments, Outcome string }

// runData shows of a run what the agent touched in the office, and its criteria.
func runData(_ context.Context, v web.RunView) any {
	var out struct {
		Verdict *kindpack.Verdict
		Touched []touched
	}
	var note struct {
		Verdict kindpack.Verdict `json:"verdict"`
	}
	if v.Note("verdict", "", &note) {
		out.Verdict = &note.Verdict
	}
	for _, e := range v.Events {
		var d struct {
			Tool *struct {
				Tool, Outcome string
				Request       json.RawMessage `json:"request"`
			} `json:"tool"`
		}
		if e.Type == agon.EventTool && json.Unmarshal(e.Data, &d) == nil && d.Tool != nil {
			out.Touched = append(out.Touched, touched{d.Tool.Tool, strings.TrimSpace(string(d.Tool.Request)), d.Tool.Outcome})
		}
	}
	if out.Verdict == nil && len(out.Touched) == 0 {
		return nil
	}
	return out
}
