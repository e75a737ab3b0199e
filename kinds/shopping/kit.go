// Package shopping is the arena of shopping agents: find what was asked for.
package shopping

import (
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/commands"
	"github.com/agon-arena/agon/kinds/shopping/data"
	"github.com/agon-arena/agon/kinds/shopping/door"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/signin"
	"github.com/agon-arena/agon/kinds/shopping/wire"
	"github.com/agon-arena/agon/ui/cli"
)

// calcExamples are inputs that the rules of the kind answer, a line each.
//
//go:embed libraries/*.txt
var libraries embed.FS

//go:embed calc.jsonl
var calcExamples []byte

// Kit makes the shopping kind for one process.
func Kit() kit.Kit { return kitOver(&shopFloor{}) }

// kitOver is Kit with its state: the catalogue.
func kitOver(floor *shopFloor) kit.Kit {
	var banks sync.Map // file of a bank: the arena that draws from it
	var k kit.Kit
	k = kit.Kit{
		Supply: func(s *kit.Server, f kit.ArenaFile, a *agon.Arena) (platform.Supply, error) {
			return raceSupply(s, &banks, func() kit.Kit { return k }, f, a)
		},
		Generate: func(ctx context.Context, o kit.Options, r kit.GenerateRequest) ([]*task.Task, error) {
			return floor.With(o).generate(ctx, r.Tasks, r.Seed)
		},
		Libraries:   libraries,
		EntryName:   "agent.py",
		Kind:        play.Name,
		Data:        data.FS,
		CheckTask:   play.CheckTask,
		FinalCall:   play.FinalCall(),
		Environment: environmentOf(floor),
		New:         func(p kit.Parts) kind.Kind { return newShopping(p, floor) },
		// A bound for each task as the kind's judges set it.
		Judge: func(tasks int) *agon.Judging {
			n := int64(max(tasks, 1))
			return &agon.Judging{Models: []string{"*"}, Budget: agon.Budget{Micros: 50_000 * agon.Micros(n), Calls: 24 * n}}
		},
		Demo: func() kit.ArenaFile {
			f := kit.ArenaFile{
				ID: demoShopping, Kind: play.Name, Title: "Shopping: find what was asked for", Netuid: 5, Licence: "MIT",
				Incentive: play.RaceRule, IncentiveNumbers: map[string]float64{"qualify": 0.05, "initial": 0.05}, /* no model plays there */
				Sets: []string{publicSet}, Hidden: []string{hiddenSet}, Samples: true, SubmissionsPerColdkey: 50,
				Judge:    &kit.JudgeFile{Demo: true},
				Evidence: agon.EvidenceForeign, // validators of ORO play here
			}
			f.Policy.Tools = play.ToolNames()
			f.Policy.Budget = agon.Budget{Micros: 2_000_000, Calls: 5000}
			f.Policy.Agent.WallMS, f.Policy.Agent.MemoryBytes, f.Policy.Agent.Pids = 300_000, 512<<20, 64
			f.Defaults()
			return f
		},
		// A hotkey waits between two entries whatever door it comes through, as ORO has
		// it; in the demo on ORO's own routes only.
		Prepare: func(_ context.Context, _ *kit.Server, a *agon.Arena) error {
			if a.CooldownSeconds == 0 && a.ID != demoShopping {
				a.CooldownSeconds = int(wire.Cooldown / time.Second)
			}
			return nil
		},
		Sets:       []string{publicSet},
		LoadSet:    func(o kit.Options, set string) ([]*task.Task, bool, error) { return shopSet(o, floor.With(o), set) },
		Tools:      func(o kit.Options) ([]tool.Tool, error) { return play.Tools(floor.With(o)), nil },
		Samples:    []kit.Sample{{Name: "greedy"}, {Name: "rules"}, {Name: "forger"}, {Name: "react", Model: true}},
		Script:     func() []byte { return kit.SampleScript(data.FS, "react") },
		Page:       page(),
		Incentives: map[string]incentive.Rule{play.RaceRule: play.Race()},
		Commands:   func(a *cli.App, _ kit.List) []cli.Extra { return commands.Of(a) },
		Dialects:   door.Dialects(),
		Calc:       calc.WithExamples(score.Rules(), calcExamples),
		Routes:     wire.Patterns(),
		Serve: func(ctx context.Context, s *kit.Server, a agon.Arena) (http.Handler, error) {
			return oroRoutes(ctx, s, a.ID)
		},
	}
	return k
}

const demoShopping = "demo-shopping"

// newShopping makes the shopping kind: a keyed gateway judges reasoning by
// model, a scripted one has no opinion of its own, so a rule walks the gates.
func newShopping(p kit.Parts, floor *shopFloor) kind.Kind {
	c := play.Config{Rootfs: p.Rootfs, Grader: hostFloor{floor, p.Options}, Model: scripted.Name}
	if p.Keyed {
		c.Judge = play.ModelJudge{Models: p.Judges}
		if models := modelNames(p.Model); len(models) > 0 {
			c.Model = models[0]
		}
	}
	return play.New(c)
}

// modelNames splits AGON_LLM_MODEL.
func modelNames(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// lender opens, when it is first asked, the gateway that pays for agents which
// validators of ORO play on their own machines.
func lender(ctx context.Context, s *kit.Server, arena string) func(context.Context) (wire.Gateway, error) {
	var mu sync.Mutex
	var gw *gateway.Gateway
	s.Background(func(ctx context.Context) {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		if gw != nil {
			_ = gw.Stop() // the process ends
		}
	})
	return func(context.Context) (wire.Gateway, error) {
		mu.Lock()
		defer mu.Unlock()
		if gw != nil {
			return gw, nil
		}
		var err error
		gw, err = kit.NewGateway(ctx, s.Options, s.Data.Path("oro", "gateway-"+arena))
		if err != nil {
			gw = nil
			return nil, err
		}
		return gw, nil
	}
}

// oroRoutes are ORO's routes over a shopping arena.
func oroRoutes(ctx context.Context, s *kit.Server, arena string) (http.Handler, error) {
	sessions := &signin.Sessions{Keep: s.Platform.Keep("oro " + arena)}
	v := &dialect.Verifier{
		Dialects: []dialect.Dialect{signin.ORO{Sessions: sessions}}, Now: time.Now, Replay: s.Replay(), Members: s.Members(arena),
		Strict: s.Options.Getenv("AGON_STRICT_SIGNATURES") != "",
	}
	sessions.Verifier = v
	trees := &validator.TreeCache{Dir: s.Data.Path("oro", "trees"), Source: s.Blobs}
	docs, err := s.Platform.Documents(ctx, "oro", s.Data.Path("oro", "runs"))
	if err != nil {
		return nil, err
	}
	return wire.New(wire.Config{
		Platform: s.Platform, Arena: arena, Verifier: v, Sessions: sessions, Dir: s.Data.Path("oro", "runs"), Documents: docs, Base: s.URL, Log: s.Options.Log,
		Gateway: lender(ctx, s, arena), Providers: kit.Providers(s.Options.Getenv),
		Models: func() []string {
			if list := modelNames(s.Options.Getenv("AGON_LLM_MODEL")); s.Options.Getenv("AGON_LLM_BASE_URL") != "" && len(list) > 0 {
				return list
			}
			return []string{scripted.Name}
		},
		Problem: func(ctx context.Context, t agon.TaskRef) (json.RawMessage, error) {
			dir, err := trees.Tree(ctx, t.Digest)
			if err != nil {
				return nil, err
			}
			tk, err := task.LoadDir(dir, t.Key)
			if err != nil {
				return nil, err
			}
			return kit.ReadFile(filepath.Join(tk.Dir, filepath.FromSlash(play.RewardFile)), 4<<20)
		},
	})
}
