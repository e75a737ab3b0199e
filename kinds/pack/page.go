package pack

import (
	"context"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
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
			out.Touched = append(out.Touched, touched{d.Tool.Tool, argumentsOf(d.Tool.Request), d.Tool.Outcome})
		}
	}
	if out.Verdict == nil && len(out.Touched) == 0 {
		return nil
	}
	return out
}

// argumentsOf shows a call's arguments by name, without the form that they travel in.
func argumentsOf(request json.RawMessage) string {
	var r struct {
		Args   []json.RawMessage          `json:"args"`
		Kwargs map[string]json.RawMessage `json:"kwargs"`
	}
	if json.Unmarshal(request, &r) != nil || len(r.Args) > 0 || len(r.Kwargs) == 0 {
		return strings.TrimSpace(string(request))
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(r.Kwargs)) {
		v := string(r.Kwargs[k])
		var s string
		if json.Unmarshal(r.Kwargs[k], &s) == nil {
			v = s
		}
		out = append(out, k+": "+v)
	}
	return strings.Join(out, " · ")
}
