package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Validators that speak only the coordinator's wire replay through jobs: each
// is a lease of a run, or a part of one (duel.go). The protocol has no
// heartbeat, so a lease lives for the task's time budget and LeaseSlack.

// Scorer names what turns a job's numbers into a score; part of a score's key.
const Scorer = "research-wire-1"

// maxReplayLog bounds the texts of a result, in bytes.
const maxReplayLog = 128_000 // notes too

// ReplaySpec is all that a replay needs.
type ReplaySpec struct {
	Repository    string            `json:"repository"`
	BaseRef       string            `json:"base_ref"`
	BaseSHA       string            `json:"base_commit_sha"`
	Setup         string            `json:"setup_command"`
	Benchmark     string            `json:"benchmark_command"`
	ResultPath    string            `json:"result_path"`
	Allowed       []string          `json:"allowed_patch_paths"`
	MaxPatchBytes int               `json:"max_patch_bytes"`
	Metric        string            `json:"metric_name"`
	Direction     string            `json:"metric_direction"`
	Ranking       string            `json:"ranking_mode"`
	Metric2       string            `json:"secondary_metric_name"`
	Direction2    string            `json:"secondary_metric_direction"`
	Env           map[string]string `json:"validator_benchmark_env"`
	Budget        int               `json:"time_budget_seconds"`
}

// JobSubmission is a submission with its patch, for who replays it.
type JobSubmission struct {
	Submission
	Patch string `json:"patch"`
}

// Job is one replay to make.
type Job struct {
	ID         string        `json:"job_id"`
	Submission JobSubmission `json:"submission"`
	Spec       ReplaySpec    `json:"replay_spec"`
	Task       TaskView      `json:"task"`
	ExpiresAt  Time          `json:"expires_at"`
}

// storedJob is a job as the store keeps it. Token is the lease's.
type storedJob struct {
	Token    string             `json:"token"`
	Run      string             `json:"run"`
	Expires  Time               `json:"expires_at"`
	Status   string             `json:"status,omitempty"`
	Observed map[string]float64 `json:"observed_metrics,omitempty"`
	Notes    string             `json:"notes,omitempty"`
	Log      string             `json:"replay_log,omitempty"`
	Ended    Time               `json:"ended_at"`
	Duel     *duelJob           `json:"duel,omitempty"`
}

// JobResult is what a validator says of a job.
type JobResult struct {
	Submission string                     `json:"submission_id"`
	Status     string                     `json:"status"`
	Observed   map[string]json.RawMessage `json:"observed_metrics"`
	Notes      string                     `json:"notes"`
	Log        string                     `json:"replay_log"`
}

// Scan returns the jobs of a validator: those it holds, and new ones up to
// MaxJobs, of one task or (empty) of all.
func (c *Coordinator) Scan(ctx context.Context, hotkey, taskID string, limit int) ([]Job, error) {
	if taskID != "" {
		if _, err := c.taskOf(taskID); err != nil {
			return nil, err
		}
	}
	out, err := c.held(ctx, hotkey, taskID)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > c.cfg.MaxJobs {
		limit = c.cfg.MaxJobs
	}
	if len(out) > limit {
		return out[:limit], nil
	}
	withDuels, without, err := c.wireArenas(ctx, taskID)
	if err != nil {
		return nil, err
	}
	var refused error
	served := false
	for _, group := range []struct {
		arenas  []string
		noDuels bool
	}{{withDuels, false}, {without, true}} {
		for len(group.arenas) > 0 && len(out) < limit {
			jobs, err := c.lease(ctx, hotkey, group.arenas, group.noDuels)
			var no *Refusal
			if errors.As(err, &no) { // it may be admitted on the subnets of the others
				refused = err
				break
			}
			if err != nil {
				return nil, err
			}
			served = true
			if len(jobs) == 0 {
				break
			}
			out = append(out, jobs...)
		}
	}
	if refused != nil && !served && len(out) == 0 {
		return nil, refused
	}
	return out[:min(len(out), limit)], nil
}

// lease takes one run for a validator and returns its jobs; none when there is no run.
func (c *Coordinator) lease(ctx context.Context, hotkey string, arenas []string, noDuels bool) ([]Job, error) {
	budget := 0
	for _, t := range c.list() {
		if slices.Contains(arenas, t.arena) {
			budget = max(budget, t.pub.TimeBudgetSeconds)
		}
	}
	replay := time.Duration(budget) * time.Second
	l, err := c.cfg.Platform.ClaimFor(ctx, platform.Caller{Hotkey: hotkey}, client.ClaimRequest{
		Arenas: arenas, Kinds: []string{kr.Name}, Driver: "wire",
	}, platform.Terms{Hold: replay + c.cfg.LeaseSlack, HoldPair: 2 * replay, NoDuels: noDuels})
	var ae *agon.Error
	if errors.As(err, &ae) && ae.Code == "no_permit" {
		return nil, refuse(403, "validator_not_allowlisted", "hotkey %s holds no validator permit here", hotkey)
	}
	if err != nil || l == nil {
		return nil, err
	}
	t := c.taskOfArena(l.Arena.ID)
	if t == nil {
		return nil, fmt.Errorf("arena %s: its task is not open", l.Arena.ID)
	}
	var rows []store.Doc
	if l.Run.Rival != nil {
		rows = duelJobs(t, l)
	} else {
		body, err := encode(storedJob{Token: l.Token, Run: l.Run.Run, Expires: Time{l.Until}})
		if err != nil {
			return nil, err
		}
		rows = []store.Doc{{ID: l.ID, Ref: l.Submission.ID, Body: body}}
	}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		for i := range rows {
			rows[i].Task, rows[i].Owner, rows[i].Status, rows[i].At = t.id, hotkey, "open", c.now()
			if err := tx.InsertDoc(tableJobs, rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Job
	for _, r := range rows {
		j, err := c.job(ctx, t, r)
		if err != nil {
			return nil, err
		}
		out = append(out, *j)
	}
	return out, nil
}

// held returns the open jobs of a validator whose leases still live, and closes the others.
func (c *Coordinator) held(ctx context.Context, hotkey, taskID string) ([]Job, error) {
	var list, lost []store.Doc
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableJobs, store.DocFilter{Owner: hotkey, Task: taskID, Status: "open", Oldest: true})
		if err != nil {
			return err
		}
		for _, r := range rows {
			j, err := decode[storedJob](r)
			if err != nil {
				return err
			}
			at, err := tx.AttemptByLease(j.lease(r.ID))
			if err != nil {
				return err
			}
			if !at.Live() || !at.LeaseUntil.After(c.now()) {
				lost = append(lost, r)
				continue
			}
			list = append(list, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(lost) > 0 {
		err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
			for _, r := range lost {
				r.Status = "lost"
				if err := tx.SetDoc(tableJobs, r, "open"); err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var out []Job
	for _, r := range list {
		t, err := c.taskOf(r.Task)
		if err != nil {
			return nil, err
		}
		j, err := c.job(ctx, t, r)
		if err != nil {
			return nil, err
		}
		out = append(out, *j)
	}
	return out, nil
}

// job writes a job whole, so that its validator needs to read nothing else.
func (c *Coordinator) job(ctx context.Context, t *task, r store.Doc) (*Job, error) {
	j, err := decode[storedJob](r)
	if err != nil {
		return nil, err
	}
	var s storedSubmission
	var a agon.Arena
	var run store.Run
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if run, err = tx.Run(j.Run); err != nil {
			return err
		}
		row, err := tx.Doc(tableSubmissions, r.Ref)
		if err != nil {
			return err
		}
		if s, err = decode[storedSubmission](row); err != nil {
			return err
		}
		a, err = tx.Arena(t.arena)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read submission %s: %w", r.Ref, err)
	}
	files, seed := s.Files, kr.ReplaySeed(t.digest, run.Seed)
	patch := ""
	if d := j.Duel; d != nil {
		files, seed = d.Files, d.Seed
	}
	if files == "" { // the base
		patch = t.same
		s.ArtifactURI, s.ArtifactSHA256, s.ArtifactBytes = nil, nil, nil
	} else if patch, err = c.patch(ctx, files); err != nil {
		return nil, err
	}
	hideOutcome(&s.Submission)
	s.ClaimedMetrics, s.LogText = map[string]json.RawMessage{}, "" // a replay is not told what to find
	if t.sha != "" {
		s.BaseRef = t.sha
	}
	spec := c.spec(t, a)
	spec.Env[kr.SeedVar] = strconv.FormatInt(seed, 10)
	return &Job{ID: r.ID, Submission: JobSubmission{s.Submission, patch}, Spec: spec, Task: c.view(t, a), ExpiresAt: j.Expires}, nil
}

// lease is the lease that a job is of; id is the job's.
func (j storedJob) lease(id string) string {
	if j.Duel != nil {
		return j.Duel.Lease
	}
	return id
}

func (c *Coordinator) spec(t *task, a agon.Arena) ReplaySpec {
	v := c.view(t, a)
	env := map[string]string{}
	maps.Copy(env, t.private.BenchmarkEnv)
	return ReplaySpec{
		Repository: v.Repository, BaseRef: t.pub.BaseRef, BaseSHA: t.sha, Setup: t.pub.SetupCommand, Benchmark: t.pub.BenchmarkCommand, ResultPath: t.pub.ResultPath,
		Allowed: t.pub.AllowedPatchPaths, MaxPatchBytes: t.pub.MaxPatchBytes, Metric: t.pub.MetricName, Direction: t.pub.MetricDirection, Ranking: t.pub.RankingMode,
		Metric2: t.pub.SecondaryMetricName, Direction2: t.pub.SecondaryMetricDirection, Env: env, Budget: t.pub.TimeBudgetSeconds,
	}
}

// patch reads the patch of a submission.
func (c *Coordinator) patch(ctx context.Context, files string) (string, error) {
	list, err := blob.GetFiles(ctx, c.cfg.Blobs, agon.Digest(files), blob.TreeLimits{})
	if err != nil {
		return "", fmt.Errorf("read patch: %w", err)
	}
	for _, f := range list {
		if f.Path == kr.PatchFile {
			return string(f.Content), nil
		}
	}
	return "", nil
}

// Result settles a job. Sending it again is answered alike; a late one is kept
// as evidence and not counted. The row's id is the job's.
func (c *Coordinator) Result(ctx context.Context, hotkey, id string, r JobResult) (*Verification, error) {
	if !slices.Contains([]string{kr.StatusAccepted, kr.StatusRejected, kr.StatusError}, r.Status) {
		return nil, refuse(422, "bad_status", "status: want accepted, rejected or error").with("field", "status")
	}
	for _, v := range []*string{&r.Notes, &r.Log} {
		if len(*v) > maxReplayLog {
			*v = (*v)[len(*v)-maxReplayLog:] // the end tells why
		}
		*v = strings.ToValidUTF8(strings.ReplaceAll(*v, "\x00", ""), "\uFFFD")
	}
	var doc store.Doc
	var j storedJob
	var run store.Run
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		doc, err = tx.Doc(tableJobs, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("job", id)
		}
		if err != nil {
			return err
		}
		if j, err = decode[storedJob](doc); err != nil {
			return err
		}
		run, err = tx.Run(j.Run)
		return err
	})
	if err != nil {
		return nil, err
	}
	if doc.Owner != hotkey {
		return nil, refuse(403, "not_job_holder", "job %s belongs to another validator", id)
	}
	if r.Submission != "" && r.Submission != doc.Ref {
		return nil, refuse(422, "job_mismatch", "job %s is of another submission", id).with("submission_id", doc.Ref)
	}
	t, err := c.taskOf(doc.Task)
	if err != nil {
		return nil, err
	}
	observed, err := finite(r.Observed)
	if err != nil {
		return nil, err
	}
	if r.Status == kr.StatusAccepted {
		for _, name := range []string{t.pub.MetricName, t.pub.SecondaryMetricName} {
			if _, ok := observed[name]; name != "" && !ok {
				return nil, refuse(422, "missing_metric", "observed_metrics has no %s", name).with("field", "observed_metrics")
			}
		}
	}
	if j.Status != "" {
		if j.Status != r.Status || len(j.Observed) != len(observed) || j.Observed[t.pub.MetricName] != observed[t.pub.MetricName] {
			return nil, refuse(409, "result_conflict", "job %s has reported another result before", id)
		}
	} else {
		if j.Duel == nil {
			_, err = c.cfg.Platform.Result(ctx, platform.Caller{Hotkey: hotkey, Wire: "bitsota"}, id, engineResult(t, j.Token, run.Tasks[0].Key, r.Status, observed))
			if err != nil {
				return nil, err
			}
		}
		j.Status, j.Observed, j.Notes, j.Log, j.Ended = r.Status, observed, r.Notes, redact(r.Log, t.private.BenchmarkEnv), Time{c.now()}
		if doc.Body, err = encode(j); err != nil {
			return nil, err
		}
		from := doc.Status
		doc.Status = "done"
		err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.SetDoc(tableJobs, doc, from) })
		if err != nil && !errors.Is(err, store.ErrNotFound) { // the same result came twice at once
			return nil, err
		}
	}
	if j.Duel != nil {
		if err := c.settleDuel(ctx, t, hotkey, j); err != nil {
			return nil, err
		}
	}
	return c.Verification(ctx, id)
}

// Beat tells that a job is under way: its lease lives for another time budget
// and LeaseSlack. Who sends none has the lease that it was given.
func (c *Coordinator) Beat(ctx context.Context, hotkey, id string) (*Verification, error) {
	var doc store.Doc
	var j storedJob
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if doc, err = tx.Doc(tableJobs, id); err == nil {
			j, err = decode[storedJob](doc)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("job", id)
	}
	if err != nil {
		return nil, err
	}
	if doc.Owner != hotkey {
		return nil, refuse(403, "not_job_holder", "job %s belongs to another validator", id)
	}
	t, err := c.taskOf(doc.Task)
	if err != nil {
		return nil, err
	}
	hold := time.Duration(t.pub.TimeBudgetSeconds) * time.Second
	if j.Duel != nil {
		hold *= time.Duration(2 * j.Duel.Pairs)
	}
	until, err := c.cfg.Platform.Extend(ctx, platform.Caller{Hotkey: hotkey}, j.lease(id), j.Token, hold+c.cfg.LeaseSlack)
	if err != nil {
		return nil, err
	}
	v, err := c.Verification(ctx, id)
	if err == nil {
		v.ExpiresAt = Time{until}
	}
	return v, err
}

// engineResult is a job's result in the engine's words: a vote, also where it
// says rejected or error.
func engineResult(t *task, token, key, status string, observed map[string]float64) client.Result {
	out := client.Result{Token: token, Outcome: status, Driver: agon.Driver{Name: "wire", Limits: []string{}}}
	sc := agon.Score{Task: key, Scorer: Scorer, Metrics: map[string]float64{}}
	switch status {
	case kr.StatusAccepted:
		x := observed[t.pub.MetricName]
		sc.Value, sc.Solved = t.pub.ScoreValue(x), true
		sc.Metrics[kr.MetricVerdict], sc.Metrics[kr.MetricObserved] = quorum.VerdictAccepted, x
		for k, v := range observed {
			sc.Metrics[kr.MetricPrefix+k] = v
		}
	case kr.StatusRejected:
		sc.Metrics[kr.MetricVerdict] = quorum.VerdictRejected
		sc.Detail = "rejected by the validator"
	default:
		sc.Metrics[kr.MetricVerdict] = quorum.VerdictError
		sc.Detail = "the validator got no number"
	}
	out.Scores = []agon.Score{sc}
	return out
}

// finite reads metrics: numbers only, none of them infinite.
func finite(in map[string]json.RawMessage) (map[string]float64, error) {
	if len(in) > maxMetrics {
		return nil, refuse(422, "bad_observed_metrics", "observed_metrics has %d entries, at most %d are allowed", len(in), maxMetrics)
	}
	out := map[string]float64{}
	for k, raw := range in {
		var x *float64
		if len(k) > 90 || json.Unmarshal(raw, &x) != nil || x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
			return nil, refuse(422, "bad_observed_metrics", "observed_metrics: %.40q is not a finite number", k).with("field", "observed_metrics")
		}
		out[k] = *x
	}
	return out, nil
}

// redact hides the private environment in a log that others will read.
func redact(log string, env map[string]string) string {
	for _, v := range env {
		if len(v) >= 4 {
			log = strings.ReplaceAll(log, v, "[REDACTED]")
		}
	}
	return log
}
