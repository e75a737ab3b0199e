// Package pack is the arena of policy packs: office work, safe and cheap.
package pack

import (
	"context"
	_ "embed" // calc.jsonl
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync"

	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/ncd"
	"github.com/agon-arena/agon/kinds/pack/office"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ui/cli"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/cost"
	"github.com/agon-arena/agon/kinds/pack/data"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/wire"
	"github.com/agon-arena/agon/sandbox"
)

// calcExamples are inputs that the rules of the kind answer, a line each.
//
//go:embed calc.jsonl
var calcExamples []byte

// officeSet is the shipped set of office scenarios.
const officeSet = "office"

// Kit makes the pack kind for one process.
func Kit() kit.Kit {
	without := &sync.Map{} // *together by arena id: validators without a platform that play here
	return kit.Kit{
		EntryName:      "pack.json",
		InsteadOfCheck: &kit.Instead{Why: "is an office scenario, which has no reference solution", Mend: "agon pack batch --dry-run names missing fixtures, agon pack batch plays its two policies"},
		Kind:           kindpack.Name,
		Data:           data.FS,
		CheckTask:      kindpack.CheckTask,
		New:            newPack,
		// A bound for each task as the kind's judges set it.
		Judge: func(tasks int) *agon.Judging {
			n := int64(max(tasks, 1))
			return &agon.Judging{Models: []string{"*"}, Budget: agon.Budget{Micros: 500_000 * agon.Micros(n), Calls: 8 * n}}
		},
		Demo: func() kit.ArenaFile {
			f := kit.ArenaFile{
				ID: "demo-pack", Kind: kindpack.Name, Title: "Policy packs: office work, safe and cheap", Netuid: 11, Licence: "MIT",
				Incentive: incentive.PairedRule, IncentiveNumbers: kit.DemoPairs(), Sets: []string{officeSet}, Samples: true, SubmissionsPerColdkey: 50,
			}
			// Costs differ that differ by a tenth and by 100 micro-dollars.
			f.IncentiveNumbers[incentive.NumBandRel], f.IncentiveNumbers[incentive.NumBandAbs] = 0.1, 100
			f.Policy.Budget = agon.Budget{Micros: 1_000_000, Calls: 60}
			f.Policy.Agent.WallMS = 300_000 // the code's five minutes, not the document's two
			f.Policy.Agent.MemoryBytes = 256 << 20
			// Without a model the demo shows how its seat moves, at a made-up price.
			in, out := int64(1_000_000), int64(3_200_000)
			f.Rehearsal = true
			f.Options = map[string]string{kindpack.OptionEpochs: "on"}
			f.Policy.Aliases = []agon.Alias{{Name: agon.Script, Model: agon.Script, In: &in, Out: &out}}
			f.Defaults()
			return f
		},
		Sets:    []string{officeSet},
		LoadSet: loadOffice,
		Samples: []kit.Sample{
			{Name: "baseline", Model: true},
			{Name: "optimised", Model: true},
			{Name: "near-copy", Model: true},
			{Name: "gaming", Model: true},
		},
		Script: func() []byte { return kit.SampleScript(data.FS, "optimised") },
		Routes: append(wire.Patterns(), samplePacks),
		Serve: func(ctx context.Context, s *kit.Server, a agon.Arena) (http.Handler, error) {
			wire, err := trajrlRoutes(ctx, s, a)
			if err != nil {
				return nil, err
			}
			mux := http.NewServeMux()
			mux.Handle("/", wire)
			mux.HandleFunc("GET "+samplePacks+"{file}", serveSamplePacks)
			return mux, nil
		},
		Beside: func(ctx context.Context, s *kit.Server, f kit.ArenaFile, d sandbox.Driver, root string) (kit.Beside, error) {
			return openTogether(ctx, s, without, f, d, root)
		},
		Commands: func(a *cli.App, kits kit.List) []cli.Extra {
			return commands.Of(a, commands.Work{
				Scenarios: Scenarios, MockTools: func(ctx context.Context, c commands.MockToolsOptions) error { return MockTools(ctx, kits, c) }, Import: ImportClawbench, Generate: GenerateTasks, Services: func(ctx context.Context, c commands.ServicesOptions) error { return ServeServices(ctx, kits, c) },
				Episode: func(ctx context.Context, c commands.EpisodeOptions) (*commands.Episode, error) {
					return PlayEpisode(ctx, kits, c)
				},
				Batch: func(ctx context.Context, c commands.BatchOptions) (*commands.Batch, error) {
					return PlayBatch(ctx, kits, c)
				},
				Compare: func(ctx context.Context, c commands.CompareOptions) (*commands.Comparison, error) {
					return Compare(ctx, kits, c)
				},
				Optimise: func(ctx context.Context, c commands.OptimiseOptions) (*commands.Optimised, error) {
					return Optimise(ctx, kits, c)
				},
				Discover: func(ctx context.Context, c commands.DiscoverOptions) error { return Discover(ctx, kits, c) },
				Audit: func(ctx context.Context, c commands.AuditOptions) (*consensus.Audited, error) {
					return Audit(ctx, kits, c)
				},
			})
		},
		MadeFrom:   seedOfKey,
		Generate:   generateSet,
		Levels:     office.MaxDifficulty,
		Agreement:  func(arena string) *client.Agreement { return agreement(without, arena) },
		Page:       boardPart(without),
		Incentives: map[string]incentive.Rule{cost.ArenaRule: cost.Takeover(), cost.ScoreArenaRule: cost.ScoreTakeover()},
		Calc:       calc.WithExamples(slices.Concat(cost.Rules(), ncd.Rules(), packfile.Rules(), consensus.Rules(), clawbench.Rules()), calcExamples),
	}
}

// newPack makes the policy-pack kind: a keyed gateway judges by model, a
// scripted one has no opinion of its own, so the scenarios' checks decide.
func newPack(p kit.Parts) kind.Kind { return kindpack.New(packConfig(p)) }

func packConfig(p kit.Parts) kindpack.Config {
	c := kindpack.Config{Rootfs: p.Rootfs}
	if p.Keyed {
		c.Judge = &kindpack.ModelJudge{Models: p.Judges}
	}
	return c
}

// OfficeScenarios opens the shipped scenarios.
func OfficeScenarios() (*clawbench.Set, error) {
	sub, err := fs.Sub(data.FS, "tasks/"+officeSet)
	if err != nil {
		return nil, fmt.Errorf("open scenarios: %w", err)
	}
	return clawbench.Load(sub)
}

func loadOffice(_ kit.Options, set string) ([]*task.Task, bool, error) {
	if set != officeSet {
		return nil, false, nil
	}
	s, err := OfficeScenarios()
	if err != nil {
		return nil, false, err
	}
	list, err := ScenarioTasks(s, officeSet)
	return list, true, err
}

// ScenarioTasks makes tasks of scenarios, in the order of play.
func ScenarioTasks(s *clawbench.Set, set string) ([]*task.Task, error) {
	var out []*task.Task
	for _, sc := range s.Scenarios {
		files, err := kindpack.Task(s, sc)
		if err != nil {
			return nil, err
		}
		var list []blob.File
		for name, b := range files {
			list = append(list, blob.File{Path: name, Content: b})
		}
		t, err := task.Load(blob.FS(list), set+"/"+kindpack.TaskName(sc.Name))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
