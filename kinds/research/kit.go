// Package research is the arena of patches to a research task.
package research

import (
	"context"
	"crypto/rand"
	_ "embed" // calc.jsonl
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/commands"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/data"
	"github.com/agon-arena/agon/kinds/research/merkle"
	"github.com/agon-arena/agon/kinds/research/miner"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/kinds/research/signin"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/kinds/research/wire"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// calcExamples are inputs that the rules of the kind answer, a line each.
//
//go:embed calc.jsonl
var calcExamples []byte

// researchTokenEnv names the admin's token of the coordinator.
const researchTokenEnv = "AGON_RESEARCH_ADMIN_TOKEN"

// Kit makes the research kind for one process.
func Kit() kit.Kit {
	c := coordinator.NewClosed()
	return kit.Kit{
		InsteadOfTemplate: "agon research start TASK DIR",
		InsteadOfTry:      &kit.Instead{Why: "an entry of a research arena is a checkout with a claim", Mend: "begin with `agon research start TASK DIR`; it says what comes then"},
		InsteadOfCheck:    &kit.Instead{Why: "is a research task, which has no reference solution", Mend: "agon task preflight tries it"},
		CheckTask:         kr.CheckTask,
		TaskInit:          kr.Init,
		TaskPreflight:     preflightResearch,
		Commands:          func(a *cli.App, l kit.List) []cli.Extra { return commands.Of(a, l, tryEntry) },
		Programs:          []kit.Program{commands.Stock()},
		Kind:              kr.Name,
		Data:              data.FS,
		New: func(p kit.Parts) kind.Kind {
			return kr.New(replayConfig(p.Options, p.Rootfs))
		},
		Demo: func() kit.ArenaFile {
			f := kit.ArenaFile{
				ID: demoResearch, Kind: kr.Name, Title: "Research: smaller sorting networks", Netuid: 4, Licence: "MIT", Incentive: incentive.WinnerTakesAllRule, Sets: []string{"sortnet"}, Samples: true, SubmissionsPerColdkey: 50,
				Evidence: agon.EvidenceForeign, // validators of BitSota play here
			}
			f.Defaults()
			return f
		},
		Sets:        shippedSets,
		LoadSet:     loadResearch,
		Enter:       func(ctx context.Context, s *kit.Server, f kit.ArenaFile) error { return enterResearch(ctx, s, c, f) },
		Coordinator: c,
		Page:        page(c, time.Now),
		Open:        func(ctx context.Context, s *kit.Server) error { return openResearch(ctx, s, c) },
		Incentives:  map[string]incentive.Rule{incentive.WinnerTakesAllRule: winnerTakesAll()},
		Calc:        calc.WithExamples(slices.Concat(quorum.Rules(), surface.Rules(), merkle.Rules(), signin.Rules()), calcExamples),
		Routes:      []string{"/api/v1/", "/git/", "/healthz", "/readyz", "/status", "/redoc", "/disclaimer", "/disclaimer.md", "/claims/", "/coldkey_address/"},
		Serve: func(_ context.Context, s *kit.Server, _ agon.Arena) (http.Handler, error) {
			return researchRoutes(s, c)
		},
		Prepare: func(ctx context.Context, s *kit.Server, a *agon.Arena) error {
			for i := range a.Tasks {
				a.Tasks[i].Hidden = true // hidden data and the private environment are in the tree; miners clone the repository
			}
			if err := c.Prepare(ctx, a); err != nil {
				return err
			}
			if a.ID == demoResearch {
				a.Contest.Agree = 1 // the demo has one validator
			}
			return nil
		},
		Opened: func(ctx context.Context, s *kit.Server, a *agon.Arena) error {
			if err := c.OpenTask(ctx, *a); err != nil {
				return err
			}
			s.Options.Sayf("arena %s: enter with agon research, which claims the task %s and submits patches", a.ID, a.Title)
			return nil
		},
	}
}

// replayConfig is what replays need to know of this host.
func replayConfig(o kit.Options, rootfs string) kr.Config {
	c := kr.Config{Rootfs: rootfs, Cache: filepath.Join(kit.CacheDir(o), "clones"), Mirrors: []string{kit.TasksDir(o)}, Datasets: datasets.Open(kit.DatasetsDir(o), o.Writer())}
	if o.Getenv != nil {
		c.PackageIndex = o.Getenv("AGON_PACKAGE_INDEX")
	}
	return c
}

const demoResearch = "demo-research"

// shippedSets are sets of one task each.
var shippedSets = []string{"sortnet", "golomb", "capset", "kissing", "matmul", "circles", "kernels", "speedrun", "pumps", "compress", "kernel", "charlm"}

// loadResearch makes a set of each shipped task: an arena has one.
func loadResearch(_ kit.Options, set string) ([]*task.Task, bool, error) {
	if !slices.Contains(shippedSets, set) {
		return nil, false, nil
	}
	sub, err := fs.Sub(data.FS, "tasks/cpu")
	if err != nil {
		return nil, false, err
	}
	list, err := task.LoadSet(sub, "cpu")
	for _, t := range list {
		if t.Key == "cpu/"+set {
			return []*task.Task{t}, true, err
		}
	}
	return nil, true, err
}

// demoEntries are the samples of the demo, in this order: an improvement, an
// honest patch with a claim that is too good, a cheat that replays uncover, and
// one that is refused when it is submitted.
var demoEntries = []string{"merge-exchange", "overclaim", "unproved", "rename-benchmark"}

// enterResearch enters the samples as miners do: claim, then submit, signed over HTTP.
func enterResearch(ctx context.Context, s *kit.Server, co *coordinator.Coordinator, f kit.ArenaFile) error {
	list, err := data.Samples("sortnet")
	if err != nil {
		return err
	}
	for _, name := range demoEntries {
		i := slices.IndexFunc(list, func(x data.Sample) bool { return x.Name == name })
		if i < 0 {
			return fmt.Errorf("enter samples: there is no sample %s", name)
		}
		if err := enterPatch(ctx, s, co, f, list[i]); err != nil {
			return fmt.Errorf("enter sample %s: %w", name, err)
		}
	}
	return nil
}

// enterPatch enters one sample; one that is there already changes nothing.
func enterPatch(ctx context.Context, s *kit.Server, co *coordinator.Coordinator, f kit.ArenaFile, x data.Sample) error {
	p, err := kit.LoadParty(s.Data.Path("wallets"), "miner-"+x.Name)
	if err != nil {
		return err
	}
	if ok, err := s.EnsureRegistered(ctx, f.Arena(), p); err != nil || !ok {
		return err
	}
	c := &miner.Client{URL: s.Near(), Key: p.Hotkey}
	t, err := c.Task(ctx, "", x.Task, false)
	if err != nil {
		return err
	}
	old, err := co.Submissions(ctx, coordinator.SubmissionFilter{Task: t.ID, Miner: p.Hotkey.SS58(), Limit: 1})
	if err != nil || len(old) > 0 || t.State != coordinator.StateLive {
		return err
	}
	var side miner.Sidecar
	if err := json.Unmarshal(x.Claim, &side); err != nil {
		return fmt.Errorf("read claim: %w", err)
	}
	cl, _, err := c.Claim(ctx, t.ID, "", "sample "+x.Name)
	if err != nil {
		return err
	}
	b, err := c.Submit(ctx, &miner.Submission{ClaimID: cl.ID, BaseRef: t.BaseSHA, Patch: string(x.Patch), Sidecar: side})
	var no *miner.APIError
	if errors.As(err, &no) {
		// A refusal is what some samples show. Its claim is free again.
		s.Options.Sayf("%s was refused: %s", x.Name, no.Code())
		_, err = c.Cancel(ctx, cl.ID)
		return err
	}
	if err != nil {
		return err
	}
	var sub coordinator.Submission
	if err := json.Unmarshal(b, &sub); err != nil {
		return fmt.Errorf("read submission: %w", err)
	}
	e, err := s.Platform.Submission(ctx, platform.Caller{Operator: true}, sub.ID)
	if err != nil {
		return fmt.Errorf("read submission: %w", err)
	}
	s.Options.Sayf("entered %s (sample %s) as %s", e.Name, x.Name, sub.ID)
	return nil
}

// openResearch completes the coordinator once there is a platform.
func openResearch(ctx context.Context, s *kit.Server, co *coordinator.Coordinator) error {
	stake, err := rao(s.Options.Getenv, "AGON_RESEARCH_MIN_STAKE")
	if err != nil {
		return err
	}
	err = co.Open(coordinator.Config{
		Platform: s.Platform, Store: s.Store, Blobs: s.Blobs, Signer: s.Operator.Hotkey, URL: func() string { return publicURL(s) }, Now: time.Now, Log: s.Options.Log, MinMinerStake: stake,
		Member: func(ctx context.Context, arena string, netuid uint16, hotkey string) (coordinator.Member, bool, error) {
			a, err := s.Platform.Arena(ctx, arena)
			if err != nil {
				return coordinator.Member{}, false, err
			}
			c := kit.Chain{Ledger: s.Graphs(a.Arena)}
			coldkey, ok, err := c.Registered(ctx, netuid, hotkey)
			m := coordinator.Member{Coldkey: coldkey, Stake: stake}
			if err != nil || !ok || stake == 0 {
				return m, ok, err
			}
			g, err := c.Metagraph(ctx, netuid)
			if err != nil {
				return m, false, err
			}
			for _, n := range g.Neurons {
				if n.Hotkey == hotkey {
					m.Stake, m.Validator = n.Stake, n.Validator
				}
			}
			return m, true, nil
		},
		Template: researchTemplate(), Planner: researchPlanner(s),
	})
	if err != nil {
		return err
	}
	return co.Resume(ctx)
}

// plannerBudget bounds what one pass of the planner by a model costs.
const plannerBudget = agon.Micros(500_000)

// researchPlanner lends the configured model to the planner; nil without one.
func researchPlanner(s *kit.Server) func(context.Context, func(*judge.Judge) error) error {
	if s.Options.Getenv == nil || s.Options.Getenv("AGON_LLM_BASE_URL") == "" {
		return nil
	}
	return func(ctx context.Context, use func(*judge.Judge) error) error {
		work, err := tempdir.Make("plan")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		gw, err := kit.NewGateway(ctx, s.Options, work)
		if err != nil {
			return err
		}
		defer gw.Stop()
		j, session, err := kit.JudgeSession(ctx, gw, "planner", "plan", nil, 0, plannerBudget)
		if err != nil {
			return err
		}
		defer session.Close()
		return use(j)
	}
}

// researchTemplate is what tasks that an admin creates get besides themselves.
func researchTemplate() agon.Arena {
	f := kit.ArenaFile{ID: "template", Kind: kr.Name, Netuid: 1, SubmissionsPerColdkey: 200, Evidence: agon.EvidenceForeign}
	f.Defaults()
	return f.Arena()
}

// rao reads an amount of the environment; "" is 0.
func rao(getenv func(string) string, name string) (uint64, error) {
	text := ""
	if getenv != nil {
		text = getenv(name)
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &agon.Error{Code: "bad_setting", Status: 422, Field: name, Message: name + ": want rao, a whole number"}
	}
	return n, nil
}

// publicURL is the address that task repositories are served at.
func publicURL(s *kit.Server) string {
	if s.Options.Getenv != nil {
		if u := s.Options.Getenv("AGON_PUBLIC_URL"); u != "" {
			return strings.TrimRight(u, "/")
		}
	}
	return s.URL()
}

// researchRoutes serves the coordinator's wire (README.md).
func researchRoutes(s *kit.Server, co *coordinator.Coordinator) (http.Handler, error) {
	token, err := adminToken(s)
	if err != nil {
		return nil, err
	}
	getenv := s.Options.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	return wire.New(wire.Config{
		Coordinator: co, AdminToken: token, SignedReads: getenv("AGON_RESEARCH_SIGNED_READS") == "1", Verify: getenv("AGON_RESEARCH_VERIFY") != "0",
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.BitSota{}}, Now: time.Now, Replay: s.Replay()},
		Version:  agon.Version, Log: s.Options.Log,
	})
}

// adminToken is that of the environment, or one that is made once and kept
// beside the database, for its owner only.
func adminToken(s *kit.Server) (string, error) {
	if s.Options.Getenv != nil {
		if t := s.Options.Getenv(researchTokenEnv); t != "" {
			return t, nil
		}
	}
	path := s.Data.Path("research.token")
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) >= 16 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read admin token: %w", err)
	}
	var raw [24]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	t := hex.EncodeToString(raw[:])
	if err := os.WriteFile(path, []byte(t+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write admin token: %w", err)
	}
	return t, nil
}

// preflightResearch tries tasks in boxes like those of any replay.
func preflightResearch(ctx context.Context, o kit.Options, d sandbox.Driver, root string, list []*task.Task) ([]cli.TaskPreflight, error) {
	work, err := tempdir.Make("preflight")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	k := kr.New(replayConfig(o, root))
	p, err := kit.NewPlayer(ctx, o, d, root, o.Kinds(root), blobs, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	policy := researchTemplate().Policy
	out := []cli.TaskPreflight{}
	for _, t := range list {
		ref, err := kit.PutTask(ctx, blobs, t, work)
		if err != nil {
			return nil, err
		}
		spec := agon.RunSpec{Run: "preflight", Tasks: []agon.TaskRef{ref}, Policy: policy}
		env, done := p.Env(spec)
		r, err := k.Preflight(ctx, env, spec)
		done()
		if err != nil {
			return nil, err
		}
		x := cli.TaskPreflight{
			Task: r.Task, OK: r.OK, Values: r.Values, Baseline: r.Baseline, Band: r.Band,
			SetupMS: r.SetupMS, BenchmarkMS: r.BenchmarkMS, MaxRSS: r.MaxRSS, Value: r.Baseline, Noise: cli.TaskNoise{Absolute: r.Noise}, Leaks: r.Leaks, Seeds: []int64{}, BySeed: []cli.TaskSeedValue{},
		}
		x.BandAbs = max(r.Noise, r.Band)
		if r.Baseline != 0 {
			x.BandRel, x.Noise.Relative = x.BandAbs/math.Abs(r.Baseline), r.Noise/math.Abs(r.Baseline)
		}
		for _, v := range r.BySeed {
			x.Seeds, x.BySeed = append(x.Seeds, v.Seed), append(x.BySeed, cli.TaskSeedValue(v))
		}
		for _, c := range r.Checks {
			x.Checks = append(x.Checks, cli.Check{Name: c.Name, Status: c.Status, Detail: c.Detail})
		}
		out = append(out, x)
	}
	return out, nil
}

// winnerTakesAll is the engine's rule with the words of research arenas, which
// decide by duels of their own.
func winnerTakesAll() incentive.Rule {
	r := incentive.WinnerTakesAll()
	r.Reasons, r.Sentence = kr.Reasons, kr.Sentence
	return r
}
