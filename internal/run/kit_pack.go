package run

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/kind"
	kindpack "github.com/agon-arena/agon/kind/pack"
	"github.com/agon-arena/agon/kind/pack/clawbench"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/tasks"
	"github.com/agon-arena/agon/wire/trajrl"
)

// officeSet is the shipped set of office scenarios.
const officeSet = "office"

func packKit() kit {
	return kit{
		name:  kindpack.Name,
		build: newPack,
		demo: func() ArenaFile {
			f := ArenaFile{
				ID: "demo-pack", Kind: kindpack.Name, Title: "Policy packs: office work, safe and cheap", Netuid: 11, Licence: "MIT",
				Incentive: incentive.CostArenaRule, Sets: []string{officeSet}, Samples: true, SubmissionsPerColdkey: 50,
			}
			f.Policy.Budget = agon.Budget{Micros: 1_000_000, Calls: 60}
			f.Policy.Agent.WallMS = 300_000 // the code's five minutes, not the document's two
			f.Policy.Agent.MemoryBytes = 256 << 20
			f.defaults()
			return f
		},
		sets: []string{officeSet},
		load: loadOffice,
		samples: []sample{
			{name: "baseline", model: true},
			{name: "optimised", model: true},
			{name: "near-copy", model: true},
			{name: "gaming", model: true},
		},
		script: samples.PackScript,
		routes: append(trajrl.Patterns(), samplePacks),
		serve: func(_ context.Context, s *server, a agon.Arena) (http.Handler, error) {
			wire, err := s.trajrlRoutes(a)
			if err != nil {
				return nil, err
			}
			mux := http.NewServeMux()
			mux.Handle("/", wire)
			mux.HandleFunc("GET "+samplePacks+"{file}", serveSamplePacks)
			return mux, nil
		},
		beside: func(ctx context.Context, s *server, f ArenaFile, d sandbox.Driver, root string) (beside, error) {
			return s.openTogether(ctx, f, d, root)
		},
		incentives: map[string]incentive.Rule{incentive.CostArenaRule: incentive.CostTakeover(), incentive.ScoreArenaRule: incentive.ScoreTakeover()},
	}
}

// newPack makes the policy-pack kind: a keyed gateway judges by model, a
// scripted one has no opinion of its own, so the scenarios' checks decide.
func newPack(p parts) kind.Kind { return kindpack.New(packConfig(p)) }

func packConfig(p parts) kindpack.Config {
	c := kindpack.Config{Rootfs: p.rootfs}
	if p.keyed {
		c.Judge = &kindpack.ModelJudge{Model: p.model}
	}
	return c
}

// officeScenarios opens the shipped scenarios.
func officeScenarios() (*clawbench.Set, error) {
	sub, err := fs.Sub(tasks.FS, kindpack.Name+"/"+officeSet)
	if err != nil {
		return nil, fmt.Errorf("open scenarios: %w", err)
	}
	return clawbench.Load(sub)
}

func loadOffice(_ Options, set string) ([]*task.Task, bool, error) {
	if set != officeSet {
		return nil, false, nil
	}
	s, err := officeScenarios()
	if err != nil {
		return nil, false, err
	}
	list, err := scenarioTasks(s, officeSet)
	return list, true, err
}

// scenarioTasks makes tasks of scenarios, in the order of play.
func scenarioTasks(s *clawbench.Set, set string) ([]*task.Task, error) {
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
