package claim

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/claim/data"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed query.html
var queryHTML string

// QueryKit makes the kind of arenas whose scripts answer queries: the later era of
// the same subnet. Its tool host is the claim kind's. `agon up
// --arena query.toml` opens its demo.
func QueryKit() kit.Kit {
	return kit.Kit{
		Page:      queryPage(),
		EntryName: play.AgentFile,
		Kind:      play.QueryName,
		Data:      data.Query,
		CheckTask: play.CheckQueryTask,
		New: func(p kit.Parts) kind.Kind {
			c := play.QueryConfig{Rootfs: p.Rootfs}
			if p.Keyed {
				c.Judge = play.ModelPairs{ModelJudge: play.ModelJudge{Models: p.Judges}}
			}
			return play.NewQuery(c)
		},
		// A bound for each task: two comparisons, each with its repetitions.
		Judge: func(tasks int) *agon.Judging {
			n := int64(max(tasks, 1))
			return &agon.Judging{Models: []string{"*"}, Budget: agon.Budget{Micros: 600_000 * agon.Micros(n), Calls: 32 * n}}
		},
		Baseline: 0.1, // an answer without substance ties with a reference now and then
		Demo: func() kit.ArenaFile {
			f := kit.ArenaFile{
				ID: "demo-query", Kind: play.QueryName, Title: "Queries: answer from the sources", Netuid: 99, Licence: "MIT",
				Incentive: incentive.PairedRule, IncentiveNumbers: kit.DemoPairs(), Sets: []string{"demo"}, Samples: true, SubmissionsPerColdkey: 50,
				Judge: &kit.JudgeFile{Demo: true},
			}
			f.IncentiveNumbers[incentive.NumBaseline] = 0.1
			f.Policy.Budget = agon.Budget{Micros: 5_000_000, Calls: 2000}
			f.Policy.Agent.MemoryBytes = 512 << 20
			f.Defaults()
			return f
		},
		Routes: append(slices.Clone(platformRoutes), queryOnly...),
		Serve: func(_ context.Context, s *kit.Server, a agon.Arena) (http.Handler, error) {
			return queryRoutes(s, a.ID)
		},
		Quiet:   true,
		Sets:    []string{"demo"},
		Samples: []kit.Sample{{Name: "silent"}, {Name: "reader"}},
	}
}

// queryPage shows of a run how each answer was compared.
func queryPage() *web.Part {
	return &web.Part{Run: queryHTML, RunData: func(_ context.Context, v web.RunView) any {
		var out []play.Compared
		for _, e := range v.Events {
			var c play.Compared
			if e.Type == agon.EventNote && json.Unmarshal(e.Data, &c) == nil && c.Text == play.NoteCompared {
				out = append(out, c)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}}
}
