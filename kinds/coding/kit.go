// Package coding is the software-engineering arena: agents mend bugs in repositories.
package coding

import (
	"context"
	"embed"
	"net/http"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/coding/canary"
	"github.com/agon-arena/agon/kinds/coding/data"
	"github.com/agon-arena/agon/kinds/coding/door"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/ridges"
	"github.com/agon-arena/agon/kinds/coding/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// calcExamples are inputs that the rules of the kind answer, a line each.
//
//go:embed libraries/*.txt
var libraries embed.FS

//go:embed calc.jsonl
var calcExamples []byte

// Kit makes the coding kind for one process.
func Kit() kit.Kit {
	return kit.Kit{
		Libraries:       libraries,
		Page:            page(),
		TaskInit:        initTask,
		TaskFromRelease: fromRelease,
		PrepareTasks:    prepareTasks,
		Kind:            "coding",
		EntryName:       "agent.py",
		Data:            data.FS,
		CheckTask:       checkTask,
		TaskCanary:      canary.Make,
		New:             func(p kit.Parts) kind.Kind { return play.New(play.Config{Rootfs: p.Rootfs}) },
		Demo: func() kit.ArenaFile {
			f := kit.ArenaFile{
				ID:   "demo-coding",
				Kind: "coding", Title: "Software engineering: fix the bug", Netuid: 1, Licence: "MIT",
				// Bugs of released software take twenty times as long: an arena file may name them.
				// The canaries show how an answer that is known by heart is told.
				Sets: []string{"small", "canaries"}, Samples: true, SubmissionsPerColdkey: 50,
				Incentive: incentive.PairedRule, IncentiveNumbers: kit.DemoPairs(),
			}
			f.Defaults()
			// The sample that searches for an edit finds it within 9 s or not at all.
			f.Policy.Agent.WallMS = 25_000
			return f
		},
		Sets:     []string{"small", "canaries", "released", "fresh"},
		Samples:  []kit.Sample{{Name: "nop"}, {Name: "repair"}, {Name: "forger"}, {Name: "memoriser"}, {Name: "llm", Model: true}},
		Script:   func() []byte { return kit.SampleScript(data.FS, "llm") },
		Dialects: door.Dialects(),
		Routes:   wire.Patterns(),
		Waits:    true,
		Serve: func(_ context.Context, s *kit.Server, a agon.Arena) (http.Handler, error) {
			return ridgesRoutes(s, a)
		},
		// Decisions of earlier versions carry this name, in arenas of every kind.
		Calc:       calc.WithExamples(append(ridges.Calc(), incentive.TakeoverCalc("coding.takeover")), calcExamples),
		Incentives: ridges.Incentives(),
	}
}

// checkTask says what is wrong with a task of the kind.
func checkTask(t *task.Task) error {
	if err := (task.Form{Repository: true}).Check(t); err != nil {
		return err
	}
	return canary.Check(t)
}
