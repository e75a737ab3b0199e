package run

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/cli/config"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/consensus"
	"github.com/agon-arena/agon/copycat"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/internal/api"
	"github.com/agon-arena/agon/kind/claim"
	"github.com/agon-arena/agon/kind/pack/clawbench"
	"github.com/agon-arena/agon/kind/research/surface"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/timelock"
	"github.com/agon-arena/agon/merkle"
	"github.com/agon-arena/agon/pack"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/score"
	shopscore "github.com/agon-arena/agon/shop/score"
	"github.com/agon-arena/agon/task"
)

// Services is everything that commands can start.
func Services() cli.Services {
	return cli.Services{
		Up: func(ctx context.Context, u cli.UpOptions) (*client.Overview, error) {
			o := options(u.Common, u.Driver)
			o.Once, o.Parallel, o.Ready, o.Decided = u.Once, u.Boxes, u.Ready, u.Decided
			if u.ArenaFile != "" {
				o.Arenas = []string{u.ArenaFile}
			}
			return Up(ctx, o)
		},
		Serve: func(ctx context.Context, s cli.ServeOptions) error {
			o := options(s.Common, "")
			o.Ready = s.Ready
			if s.ArenaFile != "" {
				o.Arenas = []string{s.ArenaFile}
			}
			return Serve(ctx, o)
		},
		Validator: func(ctx context.Context, v cli.ValidatorOptions) error {
			o := options(v.Common, v.Driver)
			o.Parallel = v.Boxes
			return Validator(ctx, o, v.Client, v.Key, v.Arenas)
		},
		Try: func(ctx context.Context, t cli.TryOptions) (*cli.TryResult, error) {
			o := options(t.Common, t.Driver)
			o.Parallel = t.Boxes
			return Try(ctx, o, t.File, t.Arena, t.Tasks, t.Config.Get(config.URL))
		},
		Doctor: func(ctx context.Context, d cli.DoctorOptions) ([]cli.Check, error) {
			return Doctor(ctx, options(d.Common, "")), nil
		},
		Gateway: gatewayRole,
		GatewayCheck: func(ctx context.Context, c cli.Common) (*cli.ModelKey, error) {
			o := options(c, "")
			conf, keyed, err := openai.FromEnv(o.Getenv)
			if err != nil {
				return nil, err
			}
			if !keyed {
				return nil, noModel(o, "checking a key")
			}
			status, err := openai.Check(ctx, conf)
			return &cli.ModelKey{Status: string(status), Model: conf.Models[0]}, err
		},
		Rejudge:  rejudge,
		TaskInit: initTask,
		TaskPreflight: func(ctx context.Context, t cli.TaskCheckOptions) ([]cli.TaskPreflight, error) {
			return preflightTasks(ctx, options(t.Common, t.Driver), t.Dirs)
		},
		TaskCheck: func(ctx context.Context, t cli.TaskCheckOptions) ([]cli.TaskReport, error) {
			return CheckTasks(ctx, options(t.Common, t.Driver), t.Dirs)
		},
		TaskFetch: func(ctx context.Context, t cli.TaskFetchOptions) ([]cli.TaskFetched, error) {
			return fetchTasks(ctx, options(t.Common, ""), t.Tasks)
		},
		TaskList: func(_ context.Context, t cli.TaskListOptions) ([]cli.TaskInfo, error) {
			return listTasks(options(t.Common, ""), t.Set)
		},
		Setup: func(ctx context.Context, s cli.SetupOptions) error {
			o := options(s.Common, s.Driver)
			if s.Image != "" {
				o.Getenv = override(o.Getenv, "AGON_ROOTFS_IMAGE", s.Image)
			}
			return Setup(ctx, o)
		},
		ArenaTemplate:  arenaTemplate,
		ArenaCheck:     checkArena,
		JudgeCalibrate: calibrate,
		ClaimsGenerate: generateClaims,
		ClaimValidator: seedValidator,
		ClaimSandbox: func(ctx context.Context, c cli.ClaimSandboxOptions) error {
			return claimSandbox(ctx, options(c.Common, ""), c.Bare, os.Stderr)
		},
		Discover: discover,
		CorpusKeys: func(c cli.Common) func(string, agon.TaskRef) []string {
			return CorpusKeys(options(c, ""))
		},
		PackScenarios:   packScenarios,
		PackEpisode:     packEpisode,
		PackBatch:       packBatch,
		PackCompare:     packCompare,
		MockTools:       mockTools,
		ClawbenchImport: importClawbench,
		Calc:            Rules(),
		Templates:       templates(),
		OpenAPI:         OpenAPI,
	}
}

// Rules is every rule that agon calc recomputes.
func Rules() *calc.Registry {
	return calc.New(slices.Concat(scale.Rules(), timelock.Rules(),
		auth.Rules(), ledger.Rules(), incentive.Rules(), claim.Rules(), copycat.Rules(), shopscore.Rules(), surface.Rules(), merkle.Rules(), score.ContestRules(), score.AgreementRules(),
		pack.Rules(), consensus.Rules(), clawbench.Rules())...)
}

// templates holds what `agon agent new KIND` writes, a directory per kind.
func templates() fs.FS { return samples.Templates() }

// OpenAPI returns the document of /v1.
func OpenAPI() ([]byte, error) {
	h := api.New(api.Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("describe /v1: status %d", w.Code)
	}
	return bytes.TrimSpace(w.Body.Bytes()), nil
}

func override(getenv func(string) string, name, val string) func(string) string {
	return func(k string) string {
		if k == name {
			return val
		}
		return getenv(k)
	}
}

// options turns resolved settings into Options.
func options(c cli.Common, driver string) Options {
	// Through the settings, never around them: they withhold the key from an
	// upstream that only a found agon.toml names.
	getenv := c.Config.Getenv(os.Getenv)
	if driver != "" {
		getenv = override(getenv, "AGON_DRIVER", driver)
	}
	o := Options{
		Data: c.Config.Get(config.Data), Cache: c.Config.Get(config.Cache), Listen: c.Config.Get(config.Listen),
		Getenv: getenv, Log: c.Log, Progress: c.Progress,
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Say = c.Say
	return o
}

// listTasks lists the shipped tasks: of all sets, or of one, named as in an
// arena file ("small") or with its kind ("claim/demo").
func listTasks(o Options, set string) ([]cli.TaskInfo, error) {
	out, found := []cli.TaskInfo{}, false
	for _, k := range kits() {
		for _, name := range k.sets {
			if set != "" && set != name && set != k.name+"/"+name {
				continue
			}
			found = true
			all, err := shippedSet(o, k.name, name)
			if err != nil {
				return nil, err
			}
			for _, t := range all {
				here := true
				if t.Recipe() {
					_, err := task.Fetched(t, tasksDir(o))
					here = err == nil
				}
				out = append(out, cli.TaskInfo{
					Task: t.Key, Kind: k.name, Difficulty: t.Config.Metadata.Difficulty,
					Visible: t.Config.Agon.Visible, Available: here, Title: t.Config.Task.Description,
				})
			}
		}
	}
	if !found {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "set", Message: "there is no shipped set " + set, Mend: "agon task list shows all sets"}
	}
	return out, nil
}

func fetchTasks(ctx context.Context, o Options, keys []string) ([]cli.TaskFetched, error) {
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	all, err := shippedSet(o, "coding", releasedSet)
	if err != nil {
		return nil, err
	}
	out := []cli.TaskFetched{}
	for _, t := range all {
		if !t.Recipe() || (len(keys) > 0 && !slices.Contains(keys, t.Key)) {
			continue
		}
		f := cli.TaskFetched{Task: t.Key}
		got, err := task.Fetched(t, tasksDir(o))
		if err == nil {
			f.Cached = true
		} else if err = task.Fetch(ctx, d, root, t, tasksDir(o), func(s string) { o.say("%s: %s", t.Key, s) }); err == nil {
			got, err = task.Fetched(t, tasksDir(o))
		}
		if err != nil {
			f.Reason = err.Error()
		} else {
			f.OK, f.Digest = true, got.Digest
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: "no such task is made from published packages", Mend: "agon task list shows them"}
	}
	return out, nil
}
