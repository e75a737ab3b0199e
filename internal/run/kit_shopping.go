package run

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/kind/shopping"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/validator"
	"github.com/agon-arena/agon/wire/oro"
)

func shoppingKit() kit {
	return kit{
		name:  shopping.Name,
		build: newShopping,
		demo: func() ArenaFile {
			f := ArenaFile{
				ID: "demo-shopping", Kind: shopping.Name, Title: "Shopping: find what was asked for", Netuid: 5, Licence: "MIT",
				Incentive: shopping.RaceRule, IncentiveNumbers: map[string]float64{"qualify": 0.1, "initial": 0.05},
				Sets: []string{shopPublic}, Hidden: []string{shopHidden}, Samples: true, SubmissionsPerColdkey: 50,
			}
			f.Policy.Tools = shopping.ToolNames()
			f.Policy.Budget = agon.Budget{Micros: 2_000_000, Calls: 5000}
			f.Policy.Agent.WallMS, f.Policy.Agent.MemoryBytes, f.Policy.Agent.Pids = 300_000, 512<<20, 64
			f.defaults()
			return f
		},
		sets:       []string{shopPublic},
		load:       shopSet,
		samples:    []sample{{name: "greedy"}, {name: "rules"}, {name: "forger"}, {name: "react", model: true}},
		script:     samples.ShoppingScript,
		incentives: map[string]incentive.Rule{shopping.RaceRule: shopping.Race()},
		prepare: func(ctx context.Context, s *server, a *agon.Arena) error {
			return prepareRace(ctx, s, a, time.Now())
		},
		opened: func(_ context.Context, s *server, a *agon.Arena) error {
			if c := s.races[a.ID]; c != nil {
				s.background(c.run)
			}
			return nil
		},
		routes: oro.Patterns(),
		serve: func(_ context.Context, s *server, a agon.Arena) (http.Handler, error) {
			return s.oroRoutes(a.ID)
		},
	}
}

// newShopping makes the shopping kind: a keyed gateway judges reasoning by
// model, a scripted one has no opinion of its own, so a rule walks the gates.
func newShopping(p parts) kind.Kind {
	c := shopping.Config{Rootfs: p.rootfs, Grader: p.o.floor(), Model: scripted.Name}
	if p.keyed {
		models := modelNames(p.model)
		c.Judge = shopping.ModelJudge{Models: models}
		if len(models) > 0 {
			c.Model = models[0]
		}
	}
	return shopping.New(c)
}

// modelNames splits AGON_LLM_MODEL.
func modelNames(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// oroRoutes are ORO's routes over a shopping arena.
func (s *server) oroRoutes(arena string) (http.Handler, error) {
	sessions := &dialect.Sessions{Keep: dialect.NewMemoryKeep(time.Now)}
	v := &dialect.Verifier{
		Dialects: []dialect.Dialect{dialect.ORO{Sessions: sessions}}, Now: time.Now, Replay: replay{s.platform}, Members: members{s, arena},
		Strict: s.o.Getenv("AGON_STRICT_SIGNATURES") != "",
	}
	sessions.Verifier = v
	trees := &validator.TreeCache{Dir: s.data.Path("oro", "trees"), Source: s.blobs}
	return oro.New(oro.Config{
		API: s.platform, Arena: arena, Verifier: v, Sessions: sessions, Dir: s.data.Path("oro", "runs"), Base: s.url, Log: s.o.Log,
		Models: func() []string {
			if list := modelNames(s.o.Getenv("AGON_LLM_MODEL")); s.o.Getenv("AGON_LLM_BASE_URL") != "" && len(list) > 0 {
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
			return readBounded(filepath.Join(tk.Dir, filepath.FromSlash(task.RewardFile)), 4<<20)
		},
	})
}
