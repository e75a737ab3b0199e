package research

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/commands"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// tryEntry plays an entry as a validator does, in boxes of this machine: a replay,
// then a duel with the incumbent on seeds of its own. Nothing is sent.
func tryEntry(ctx context.Context, o kit.Options, in commands.TryInput) (*commands.Tried, error) {
	work, err := tempdir.Make("try")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	dir := in.Dir
	if dir == "" {
		dir = filepath.Join(work, "set", in.Task.Slug)
		if err := kr.WriteTask(dir, in.Task, in.Base); err != nil {
			return nil, err
		}
	}
	t, err := task.LoadDir(dir, "try/task")
	if err != nil {
		return nil, err
	}
	spec, _, err := kr.OpenTask(dir)
	if err != nil {
		return nil, err
	}
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	k := kr.New(replayConfig(o, root))
	p, err := kit.NewPlayer(ctx, o, d, root, o.Kinds(root), blobs, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	ref, err := kit.PutTask(ctx, blobs, t, work)
	if err != nil {
		return nil, err
	}
	entry := func(patch string, side map[string]any) (agon.Digest, error) {
		claim, err := json.Marshal(side)
		if err != nil {
			return "", err
		}
		return blob.PutFiles(ctx, blobs, []blob.File{{Path: kr.PatchFile, Mode: blob.ModeFile, Content: []byte(patch)}, {Path: kr.ClaimFile, Mode: blob.ModeFile, Content: claim}}, blob.TreeLimits{})
	}
	digest, err := entry(in.Patch, in.Claim)
	if err != nil {
		return nil, err
	}
	rival := &agon.Rival{Round: 1, Pairs: in.Pairs}
	if !quorum.Noisy(spec.Rules) {
		rival.Pairs = 1
	}
	if in.Against != "" {
		rival.Submission = "incumbent"
		if rival.Digest, err = entry(in.Against, map[string]any{"summary": "the incumbent"}); err != nil {
			return nil, err
		}
	}
	run := agon.RunSpec{Run: "try", Tasks: []agon.TaskRef{ref}, Policy: researchTemplate().Policy, Rival: rival}
	run.Seed = seeds.Derive("research-try", time.Now().String()) //nolint:forbidigo // a seed of each try's own
	run.Policy.Agent.WallMS = max(run.Policy.Agent.WallMS, int64(spec.TimeBudgetSeconds)*1000)
	env, done := p.Env(run)
	defer done()
	rec, err := k.Play(ctx, env, agon.Submission{ID: "try", Digest: digest}, run)
	if err != nil {
		return nil, err
	}
	var obs kr.Observed
	if err := json.Unmarshal(rec.Files[kr.ObservedFile], &obs); err != nil {
		return nil, fmt.Errorf("read what was observed: %w", err)
	}
	out := &commands.Tried{Status: obs.Status, Reason: obs.Reason, Notes: obs.Notes, Metric: spec.MetricName, Metrics: obs.Metrics, Log: string(rec.Files[kr.LogFile]), Incumbent: in.Who, Pairs: []quorum.Pair{}}
	if obs.Status != kr.StatusAccepted {
		return out, nil
	}
	for _, x := range obs.Duel {
		out.Pairs = append(out.Pairs, x.Pair)
	}
	if len(out.Pairs) == 0 {
		return nil, &agon.Error{Code: "no_pair", Status: http.StatusUnprocessableEntity, Message: "the incumbent gave no number here, so there is nothing to compare with", Mend: "compare with the base: --against base"}
	}
	v := obs.Metrics[spec.MetricName]
	out.Value = &v
	out.Duel = quorum.RunDuel(spec.Rules, in.Attempt, out.Pairs)
	out.Chance = quorum.Chance(spec.Rules, in.Attempt, out.Pairs)
	return out, nil
}
