package play

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/sandbox"
)

// Metrics of sessions and of verified scenarios.
const (
	MetricEarly       = "early" // mean quality of the first two episodes
	MetricLate        = "late"  // of the last two
	MetricDelta       = "delta"
	MetricMean        = "mean"
	MetricTestsPassed = "tests_passed"
	MetricTestsTotal  = "tests_total"
)

// judgeSession scores each episode by itself. The session's score is TrajectoryRL's
// split half: the mean, and more for later episodes that are better. It is solved
// where every episode is.
func judgeSession(env kind.Env, sc *scenario, e Episode, trajectory func(*clawbench.Scenario, Episode) (Verdict, error), score *agon.Score) error {
	var q []float64
	all := Verdict{}
	for i, part := range sc.Session {
		if i >= len(e.Session) {
			q = append(q, 0)
			all.Results = append(all.Results, CriterionResult{ID: fmt.Sprintf("episode %d", i+1), Category: "correctness", Weight: 1, Justification: "it was not played"})
			continue
		}
		se := e.Session[i]
		one := *sc.Scenario
		one.Session, one.Scoring, one.Prompt = nil, part.Scoring, se.Instruction
		v, err := trajectory(&one, Episode{Scenario: e.Scenario, Pack: e.Pack, Prompt: se.Instruction, User: e.User, Response: se.Response, Turns: se.Turns, Calls: se.Calls, State: se.State})
		if err != nil {
			return fmt.Errorf("episode %d: %w", i+1, err)
		}
		q = append(q, v.Score)
		env.Progress(agon.EventNote, score.Task, map[string]any{"text": fmt.Sprintf("verdict of episode %d", i+1), "verdict": v})
		for _, c := range v.Results {
			c.ID = fmt.Sprintf("%d:%s", i+1, c.ID)
			all.Results = append(all.Results, c)
		}
	}
	all = SumUp(all.Results)
	judged(all, score)
	h := packfile.NewSplitHalf(q)
	score.Value = math.Round(h.Final*1e6) / 1e6
	for name, x := range map[string]float64{MetricEarly: h.Early, MetricLate: h.Late, MetricDelta: h.Delta, MetricMean: h.Mean} {
		score.Metrics[name] = x
	}
	return nil
}

// verify runs a scenario's tests on what the agent left, in a box where the agent
// never was. Any passed test qualifies, as in the field's sixth version.
func (k *Kind) verify(ctx context.Context, env kind.Env, t *task.Task, sc *scenario, r agon.RunSpec, rec agon.Record, score *agon.Score) error {
	found, log, err := k.tests(ctx, env, t, sc, r, rec)
	if err != nil {
		return fmt.Errorf("run the verifier: %w", err)
	}
	score.Value, score.Solved = math.Round(found.Quality*1e6)/1e6, found.Quality > 0
	score.Metrics[MetricTestsPassed], score.Metrics[MetricTestsTotal] = float64(found.Passed), float64(found.Total)
	score.Detail = fmt.Sprintf("%d of %d tests (%s)", found.Passed, found.Total, found.From)
	if found.From == "none" {
		score.Detail = "no test gave a result: " + plain.Short(log, 200)
	}
	env.Progress(agon.EventNote, t.Key, map[string]any{"text": "verifier", "tests": found, "log": log})
	return nil
}

func (k *Kind) tests(ctx context.Context, env kind.Env, t *task.Task, sc *scenario, r agon.RunSpec, rec agon.Record) (packfile.Tests, string, error) {
	none := packfile.Tests{From: "none"}
	out, ok := rec.Files[FileOutput]
	if !ok {
		return none, "the agent left no " + sc.Verifier.Output, nil
	}
	root, err := k.root(ctx, env, t)
	if err != nil {
		return none, "", err
	}
	scripts, err := verifierFiles(sc)
	if err != nil {
		return none, "", err
	}
	box, err := env.Box(ctx, sandbox.Spec{
		Name: "verifier", Rootfs: root.Dir, UID: root.UID, GID: root.GID, Limits: r.Policy.Agent, Env: environ(root),
		Mounts: []sandbox.Mount{
			appIn(root), {Kind: sandbox.MountScratch, Target: testsDir}, {Kind: sandbox.MountScratch, Target: logsDir}, {Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: 64 << 20},
		},
	})
	if err != nil {
		return none, "", err
	}
	defer box.Close()
	below := strings.TrimPrefix(sc.Verifier.Output, appDir+"/")
	err = errors.Join(
		write(ctx, box, root.Python, appDir, []blob.File{{Path: below, Content: out, Mode: blob.ModeExec}}),
		write(ctx, box, root.Python, testsDir, scripts),
		write(ctx, box, root.Python, logsDir, []blob.File{{Path: "verifier/.agon"}}),
	)
	if err != nil {
		return none, "", err
	}
	wall := 5 * time.Minute
	if s := sc.Verifier.TimeoutS; s > 0 {
		wall = time.Duration(s) * time.Second
	}
	log := &limited{left: maxKeptText}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"/bin/sh", testsDir + "/test.sh"}, Dir: appDir, Stdin: strings.NewReader(""), Stdout: log, Stderr: log, Wall: wall, Untrusted: true})
	if err != nil {
		return none, "", err
	}
	text := strings.ToValidUTF8(log.buf.String(), "\ufffd")
	if x.Limit != "" {
		return none, x.Limit + " limit\n" + text, nil
	}
	var found [2][]byte
	for i, name := range []string{"ctrf.json", "reward.txt"} {
		b, err := box.ReadFile(logsDir+"/verifier/"+name, 1<<20)
		if err != nil && !errors.Is(err, sandbox.ErrNotExist) && !errors.Is(err, sandbox.ErrUnsafe) {
			return none, "", err
		}
		found[i] = b
	}
	return packfile.ReadTests(found[0], found[1]), text, nil
}

// verifierFiles are the scripts of a verifier.
func verifierFiles(sc *scenario) ([]blob.File, error) {
	dir := path.Join(fixturesDir, sc.Verifier.Tests)
	var out []blob.File
	err := fs.WalkDir(sc.root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := clawbench.ReadFile(sc.root.FS(), p, clawbench.MaxFixture)
		if err != nil {
			return err
		}
		out = append(out, blob.File{Path: strings.TrimPrefix(p, dir+"/"), Content: b, Mode: blob.ModeExec})
		return nil
	})
	return out, err
}
