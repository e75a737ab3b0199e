package run

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/cli/progress"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/validator"
)

// maxTryFile bounds the file that is tried; the kind has its own, lower limit.
const maxTryFile = 16 << 20

// Try plays a file on an arena's public tasks with the validator's own Player,
// on this machine, for nobody's account. only names tasks; none means all.
func Try(ctx context.Context, o Options, file, arena string, only []string, url string) (*cli.TryResult, error) {
	b, err := readBounded(file, maxTryFile)
	if err != nil {
		return nil, err
	}
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	work, err := tempdir.Make("try")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	a, source, err := tryArena(ctx, o, arena, url, blobs, work)
	if err != nil {
		return nil, err
	}
	refs, err := chooseTasks(a, only)
	if err != nil {
		return nil, err
	}
	ks := kinds(o, root)
	k, ok := ks[a.Kind]
	if !ok {
		return nil, &agon.Error{Code: "unknown_kind", Status: 422, Message: "this agon does not play " + a.Kind}
	}
	files := []blob.File{{Path: "agent.py", Content: b}}
	findings, err := k.Check(ctx, a, blob.FS(files))
	if err != nil {
		return nil, err
	}
	findings = slices.DeleteFunc(findings, func(f agon.Finding) bool { return f.Warning })
	if len(findings) > 0 {
		return nil, &agon.Error{Code: findings[0].Code, Status: 422, Field: findings[0].Field, Limit: findings[0].Limit, Message: findings[0].Message, Findings: findings, Mend: "the arena would refuse it for the same reason"}
	}
	digest, err := blob.PutFiles(ctx, blobs, files, blob.TreeLimits{})
	if err != nil {
		return nil, err
	}
	p, err := newPlayer(ctx, o, d, root, ks, source, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.close()
	if o.Getenv("AGON_LLM_BASE_URL") != "" {
		o.say("a real model is configured: this can cost at most $%.2f", float64(gateway.UpperBound(a.Policy.Budget, len(refs)))/1e6)
	}

	sub := agon.Submission{ID: "try", Arena: a.ID, Name: filepath.Base(file), Digest: digest, Licence: a.Licence}
	res := &cli.TryResult{Arena: a.ID, Total: len(refs), Runs: make([]cli.TryRun, len(refs))}
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = runtime.NumCPU()
	}
	var mu sync.Mutex // guards res, sum and done
	sum, done := 0.0, 0
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, ref := range refs {
		g.Go(func() error {
			if gctx.Err() != nil {
				return gctx.Err()
			}
			att := p.Play(gctx, validator.Job{
				Run: agon.RunSpec{
					Run: fmt.Sprintf("try-%d", i+1), Arena: a.ID, Tasks: []agon.TaskRef{ref}, Policy: a.Policy,
					Seed: agon.DeriveSeed("run", a.ID, string(digest), ref.Key, "0"),
				},
				Attempt: 1, Arena: *a, Submission: sub,
			})
			r := cli.TryRun{Task: ref.Key, State: agon.RunScored, Fault: att.Fault, MS: att.Wall.Milliseconds(), Detail: att.Outcome}
			if att.Detail != "" {
				r.Detail += ": " + att.Detail
			}
			if att.Fault.Ours() {
				r.State, r.Detail = agon.RunFailed, att.Reason
			} else {
				v := att.Scores[0].Value
				r.Score = &v
			}
			mu.Lock()
			defer mu.Unlock()
			res.Runs[i] = r
			res.CostMicros += att.Cost
			if r.Score != nil {
				sum += *r.Score
				if att.Scores[0].Solved {
					res.Solved++
				}
			}
			done++
			o.progress(progress.State{Label: "trying", Total: len(refs), Done: done})
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, r := range res.Runs {
		if r.Score == nil {
			return res, &agon.Error{Code: "failed_here", Status: 503, Fault: agon.FaultValidator, Message: "a run failed on our side: " + r.Task + ": " + r.Detail, Mend: "try it again; agon doctor may say more"}
		}
	}
	mean := sum / float64(len(refs))
	res.Score = &mean
	return res, nil
}

// tryArena returns an arena to try on: a shipped demo without any server, else
// what the server at url shows.
func tryArena(ctx context.Context, o Options, id, url string, blobs blob.Store, work string) (*agon.Arena, blob.Store, error) {
	for _, f := range demos() {
		if f.ID != id {
			continue
		}
		refs, err := arenaTasks(ctx, o, f, blobs, work)
		if err != nil {
			return nil, nil, err
		}
		a := f.Arena()
		a.Tasks = refs
		return &a, blobs, nil
	}
	c, err := client.New(url, nil)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Arena(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return &a.Arena, validator.RemoteBlobs{Local: blobs, Remote: c}, nil
}

// chooseTasks returns the tasks to try: those named, or all public ones.
func chooseTasks(a *agon.Arena, only []string) ([]agon.TaskRef, error) {
	var out []agon.TaskRef
	for _, name := range only {
		i := slices.IndexFunc(a.Tasks, func(t agon.TaskRef) bool { return t.Key == name })
		if i < 0 {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: fmt.Sprintf("the arena %s has no task %q", a.ID, name), Mend: "agon task list shows them"}
		}
		if a.Tasks[i].Hidden {
			return nil, &agon.Error{Code: "hidden_task", Status: 422, Field: "task", Message: name + " is hidden: only validators may play it", Mend: "try the public tasks"}
		}
		out = append(out, a.Tasks[i])
	}
	if len(only) > 0 {
		return out, nil
	}
	for _, t := range a.Tasks {
		if !t.Hidden {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, &agon.Error{Code: "hidden_task", Status: 422, Field: "arena", Message: "all tasks of " + a.ID + " are hidden: there is nothing to try"}
	}
	return out, nil
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: "there is no file " + path}
		}
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Mode()&fs.ModeType != 0 {
		return nil, &agon.Error{Code: "not_a_file", Status: 422, Field: "file", Message: path + " is not a regular file"}
	}
	if st.Size() > limit {
		return nil, &agon.Error{Code: "too_large", Status: 413, Field: "file", Limit: fmt.Sprintf("%d bytes", limit), Message: path + " is too large"}
	}
	return os.ReadFile(path)
}
