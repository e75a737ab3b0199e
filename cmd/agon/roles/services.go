package roles

import (
	"bytes"
	"context"
	_ "embed" // calc.jsonl
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus/distill"
	"github.com/agon-arena/agon/engine/gc"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/timelock"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/imagebuild"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/ui/api"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/env"
)

// Services is everything that commands can start.
func Services(kits kit.List) cli.Services {
	return cli.Services{
		Roles: cli.Roles{
			Up: func(ctx context.Context, u cli.UpOptions) (*client.Overview, error) {
				o := kits.Options(u.Common, u.Driver)
				o.Once, o.Parallel, o.Ready, o.Decided, o.Arenas = u.Once, u.Boxes, u.Ready, u.Decided, u.ArenaFiles
				return Up(ctx, o)
			},
			Serve: func(ctx context.Context, s cli.ServeOptions) error {
				o := kits.Options(s.Common, "")
				o.Ready, o.Registration, o.RegistrationPrice = s.Ready, s.Registration, s.RegistrationPrice
				o.LocalMetrics, o.Arenas = s.LocalMetrics, s.ArenaFiles
				return Serve(ctx, o)
			},
			Validator: func(ctx context.Context, v cli.ValidatorOptions) error {
				o := kits.Options(v.Common, v.Driver)
				o.Parallel, o.Metrics = v.Boxes, v.Metrics
				return Validator(ctx, o, v.Client, v.Key, v.Arenas)
			},
			Gateway: func(ctx context.Context, c cli.GatewayOptions) error { return gatewayRole(ctx, kits, c) },
			EnvServe: func(ctx context.Context, c cli.EnvServeOptions) error {
				return envRole(ctx, kits.Options(c.Common, ""), c)
			},
			Distill: func(ctx context.Context, d cli.DistillOptions, tell func(distill.Event)) (*cli.DistillResult, error) {
				return distillRole(ctx, kits.Options(d.Common, ""), d, tell)
			},
		},
		Host: cli.Host{
			Doctor: func(ctx context.Context, d cli.DoctorOptions) ([]cli.Check, error) {
				o := kits.Options(d.Common, "")
				list := Doctor(ctx, o)
				if d.Data {
					list = append(list, inspect(ctx, o)...)
				}
				if d.GPU {
					list = append(list, inspectGPUs(ctx, o)...)
				}
				return list, nil
			},
			RotateGateway: func(c cli.Common) (*agon.Succession, error) { return rotateGatewayKey(kits.Options(c, "")) },
			RotateLog:     func(c cli.Common) (*translog.Succession, error) { return rotateLogKey(kits.Options(c, "")) },
			Model: func(ctx context.Context, c cli.Common) (*cli.ModelKey, error) {
				o := kits.Options(c, "")
				conf, keyed, err := openai.FromEnv(o.Getenv)
				if err != nil {
					return nil, err
				}
				if !keyed {
					return nil, kit.NoModel(o, "checking a key")
				}
				status, err := openai.Check(ctx, conf)
				return &cli.ModelKey{Status: string(status), Model: conf.Models[0]}, err
			},
			Images: func(c cli.Common) *rootfs.Images {
				o := kits.Options(c, "")
				return rootfs.OpenImages(kit.ImagesDir(o), o.Writer())
			},
			Datasets: func(c cli.Common) *datasets.Store {
				o := kits.Options(c, "")
				return datasets.Open(kit.DatasetsDir(o), o.Writer())
			},
			BuildImage: func(ctx context.Context, b cli.BuildImageOptions) (*rootfs.Image, error) {
				o := kits.Options(b.Common, b.Driver)
				d, root, err := kit.OpenDriver(ctx, o)
				if err != nil {
					return nil, err
				}
				return imagebuild.Build(ctx, imagebuild.Config{
					Driver: d, Images: rootfs.OpenImages(kit.ImagesDir(o), o.Writer()), Own: root, Dir: b.Dir, Dockerfile: b.Dockerfile,
					From: b.From, Args: b.Args, Networks: b.Networks, Name: b.Name, Log: o.Writer(),
				})
			},
			Setup: func(ctx context.Context, s cli.SetupOptions) error {
				o := kits.Options(s.Common, s.Driver)
				if s.Image != "" {
					o.Getenv = kit.Override(o.Getenv, "AGON_ROOTFS_IMAGE", s.Image)
				}
				return Setup(ctx, o)
			},
		},
		Arenas: cli.Arenas{
			Template: func(kind string) ([]byte, error) { return arenaTemplate(kits, kind) },
			Rules:    kits.Incentives(),
			Rule:     func(c cli.Common, path string) (*cli.ArenaRule, error) { return ruleOfArena(kits.Options(c, ""), path) },
			Check: func(c cli.Common, path string) (*cli.ArenaChecked, error) {
				return checkArena(kits.Options(c, ""), path)
			},
		},
		Agents: cli.Agents{
			Try: func(ctx context.Context, t cli.TryOptions) (*cli.TryResult, error) {
				o := kits.Options(t.Common, t.Driver)
				o.Parallel = t.Boxes
				return Try(ctx, o, Trial{File: t.File, Arena: t.Arena, Tasks: t.Tasks, URL: t.Config.Get(config.URL), Set: t.Set})
			},
			EntryName: func(kind, file string) string { k, _ := kits.Of(kind); return k.Entry(file) },
			Templates: kits.Templates(), Starts: kits.Starts(),
		},
		Tasks: cli.Tasks{
			Kinds: taskKinds(kits),
			Init:  func(_ context.Context, kind, dir string) ([]string, error) { return initTask(kits, kind, dir) },
			Preflight: func(ctx context.Context, t cli.TaskCheckOptions) ([]cli.TaskPreflight, error) {
				return preflightTasks(ctx, kits.Options(t.Common, t.Driver), t.Dirs)
			},
			Check: func(ctx context.Context, t cli.TaskCheckOptions) ([]cli.TaskReport, error) {
				return CheckTasks(ctx, kits.Options(t.Common, t.Driver), t.Dirs, t.Paid)
			},
			Canary: func(_ context.Context, t cli.TaskCanaryOptions) (*cli.TaskCanary, error) {
				return canaryTask(kits.Options(t.Common, ""), t)
			},
			FromRelease: func(ctx context.Context, t cli.TaskReleaseOptions) ([]cli.TaskMade, error) {
				return taskFromRelease(ctx, kits.Options(t.Common, t.Driver), t)
			},
			Fetch: func(ctx context.Context, t cli.TaskFetchOptions) ([]cli.TaskFetched, error) {
				return fetchTasks(ctx, kits.Options(t.Common, ""), t.Tasks)
			},
			List: func(_ context.Context, t cli.TaskListOptions) ([]cli.TaskInfo, error) {
				return listTasks(kits.Options(t.Common, ""), t.Set)
			},
		},
		Judges: cli.Judges{
			Rejudge: func(ctx context.Context, c cli.RejudgeOptions) ([]agon.Score, error) { return rejudge(ctx, kits, c) },
			Replay:  func(ctx context.Context, c cli.ReplayOptions) ([]agon.Score, error) { return replay(ctx, kits, c) },
			Pair:    pairOf(kit.Options{Kits: kits}),
			Exams:   kits.Exams(),
			Calibrate: func(ctx context.Context, c cli.JudgeCalibrateOptions) (*judge.Calibration, error) {
				return calibrate(ctx, kits, c)
			},
			Rescore: func(ctx context.Context, c cli.RescoreOptions) (*cli.Rescore, error) { return rescore(ctx, kits, c) },
		},
		Corpora: cli.Corpora{
			Keys: func(c cli.Common) func(string, agon.TaskRef) []string {
				return CorpusKeys(kits.Options(c, ""))
			},
			Finals: kits.Finals(),
		},
		Stores: cli.Stores{
			Copy: func(ctx context.Context, c cli.Common, from, to string) (*cli.StoreCopied, error) {
				return copyStore(ctx, kits.Options(c, ""), from, to)
			},
			Collect: func(ctx context.Context, c cli.CollectOptions) (*gc.Report, error) {
				return collect(ctx, kits.Options(c.Common, ""), c)
			},
			Backup: func(ctx context.Context, c cli.Common, to string) (*cli.BackupMade, error) {
				return backup(ctx, kits.Options(c, ""), to, time.Now())
			},
			Restore: func(ctx context.Context, c cli.Common, from string) (*cli.BackupRestored, error) {
				return restore(ctx, kits.Options(c, ""), from)
			},
		},
		Calc:    Rules(kits),
		OpenAPI: map[string]func() ([]byte, error){"openapi.json": OpenAPI, "environments.openapi.json": env.OpenAPI},
	}
}

// calcExamples are inputs that the rules below the kinds answer, a line each.
//
//go:embed calc.jsonl
var calcExamples []byte

// Rules is every rule that agon calc recomputes.
func Rules(kits kit.List) *calc.Registry {
	list := slices.Concat(auth.Rules(), ledger.Rules(), scale.Rules(), timelock.Rules(), incentive.Rules(), score.AgreementRules(), score.StandingRules(), translog.Rules(), seeds.Rules())
	list = calc.WithExamples(list, calcExamples)
	for _, k := range kits {
		list = append(list, k.Calc...)
	}
	return calc.New(list...)
}

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

// listTasks lists the shipped tasks: of all sets, or of one, named as in an
// arena file ("small") or with its kind ("claim/demo").
func listTasks(o kit.Options, set string) ([]cli.TaskInfo, error) {
	out, found := []cli.TaskInfo{}, false
	for _, k := range o.Kits {
		for _, name := range k.Sets {
			if set != "" && set != name && set != k.Kind+"/"+name {
				continue
			}
			found = true
			all, err := o.ShippedSet(k.Kind, name)
			if err != nil {
				return nil, err
			}
			for _, t := range all {
				here := true
				if t.Recipe() {
					_, err := task.Fetched(t, kit.TasksDir(o))
					here = err == nil
				}
				out = append(out, cli.TaskInfo{
					Task: t.Key, Kind: k.Kind, Difficulty: t.Config.Metadata.Difficulty,
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

func fetchTasks(ctx context.Context, o kit.Options, keys []string) ([]cli.TaskFetched, error) {
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	all, err := o.Recipes()
	if err != nil {
		return nil, err
	}
	out := []cli.TaskFetched{}
	for _, t := range all {
		if len(keys) > 0 && !slices.Contains(keys, t.Key) {
			continue
		}
		f := cli.TaskFetched{Task: t.Key}
		got, err := task.Fetched(t, kit.TasksDir(o))
		if err == nil {
			f.Cached = true
		} else if err = task.Fetch(ctx, d, root, t, kit.TasksDir(o), func(s string) { o.Sayf("%s: %s", t.Key, s) }); err == nil {
			got, err = task.Fetched(t, kit.TasksDir(o))
		}
		if err != nil {
			f.Reason = err.Error()
		} else {
			f.OK, f.Digest = true, got.Digest
			if own, _ := o.Kits.Of(got.Config.Agon.Kind); own.PrepareTasks != nil {
				if err := own.PrepareTasks(ctx, []*task.Task{got}, func(s string) { o.Sayf("%s", s) }); err != nil {
					f.OK, f.Reason = false, err.Error()
				}
			}
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: "no such task is made from published packages", Mend: "agon task list shows them"}
	}
	return out, nil
}
