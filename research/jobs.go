package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	kr "github.com/agon-arena/agon/kind/research"
	"github.com/agon-arena/agon/platform"
	"github.com/agon-arena/agon/score"
	"github.com/agon-arena/agon/store"
)

// Validators that speak only the coordinator's wire replay through jobs: each
// is a lease of a run. The protocol has no heartbeat, so a lease lives for the
// task's time budget and LeaseSlack.

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
	var arenas []string
	if taskID != "" {
		t, err := c.taskOf(taskID)
		if err != nil {
			return nil, err
		}
		arenas = []string{t.arena}
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
	for len(out) < limit {
		j, err := c.lease(ctx, hotkey, arenas)
		if err != nil {
			return nil, err
		}
		if j == nil {
			break
		}
		out = append(out, *j)
	}
	return out, nil
}

// lease takes one run for a validator; nil when there is none.
func (c *Coordinator) lease(ctx context.Context, hotkey string, arenas []string) (*Job, error) {
	budget := 0
	for _, t := range c.list() {
		if len(arenas) == 0 || slices.Contains(arenas, t.arena) {
			budget = max(budget, t.pub.TimeBudgetSeconds)
		}
	}
	hold := time.Duration(budget)*time.Second + c.cfg.LeaseSlack
	l, err := c.cfg.Platform.ClaimFor(ctx, platform.Caller{Hotkey: hotkey}, client.ClaimRequest{
		Arenas: arenas, Kinds: []string{kr.Name}, Driver: "wire",
	}, platform.Terms{Hold: hold, NoDuels: true})
	var ae *agon.Error
	if errors.As(err, &ae) && ae.Code == "no_permit" {
		return nil, refuse(403, "validator_not_allowlisted", "hotkey %s holds no validator permit here", hotkey)
	}
	if err != nil || l == nil {
		return nil, err
	}
	body, err := encode(storedJob{Token: l.Token, Run: l.Run.Run, Expires: Time{l.Until}})
	if err != nil {
		return nil, err
	}
	t := c.taskOfArena(l.Arena.ID)
	if t == nil {
		return nil, fmt.Errorf("arena %s: its task is not open", l.Arena.ID)
	}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		return tx.InsertDoc(store.ResearchJobs, store.Doc{
			ID: l.ID, Task: t.id, Owner: hotkey, Ref: l.Submission.ID, Status: "open", At: c.now(), Body: body,
		})
	})
	if err != nil {
		return nil, err
	}
	return c.job(ctx, t, l.ID, l.Submission.ID, Time{l.Until})
}

// held returns the open jobs of a validator whose leases still live, and closes the others.
func (c *Coordinator) held(ctx context.Context, hotkey, taskID string) ([]Job, error) {
	type open struct {
		doc store.Doc
		job storedJob
	}
	var list []open
	var lost []store.Doc
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(store.ResearchJobs, store.DocFilter{Owner: hotkey, Task: taskID, Status: "open", Oldest: true})
		if err != nil {
			return err
		}
		for _, r := range rows {
			at, err := tx.AttemptByLease(r.ID)
			if err != nil {
				return err
			}
			j, err := decode[storedJob](r)
			if err != nil {
				return err
			}
			if !at.Live() || !at.LeaseUntil.After(c.now()) {
				lost = append(lost, r)
				continue
			}
			list = append(list, open{r, j})
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
				if err := tx.SetDoc(store.ResearchJobs, r, "open"); err != nil && !errors.Is(err, store.ErrNotFound) {
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
	for _, x := range list {
		t, err := c.taskOf(x.doc.Task)
		if err != nil {
			return nil, err
		}
		j, err := c.job(ctx, t, x.doc.ID, x.doc.Ref, x.job.Expires)
		if err != nil {
			return nil, err
		}
		out = append(out, *j)
	}
	return out, nil
}

// job writes a job whole, so that its validator needs to read nothing else.
func (c *Coordinator) job(ctx context.Context, t *task, id, submission string, until Time) (*Job, error) {
	var s storedSubmission
	var a agon.Arena
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		row, err := tx.Doc(store.ResearchSubmissions, submission)
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
		return nil, fmt.Errorf("read submission %s: %w", submission, err)
	}
	patch, err := c.patch(ctx, s.Files)
	if err != nil {
		return nil, err
	}
	s.Observed, s.ClaimedMetrics, s.LogText = nil, map[string]json.RawMessage{}, "" // a replay is not told what to find
	if t.sha != "" {
		s.BaseRef = t.sha
	}
	return &Job{ID: id, Submission: JobSubmission{s.Submission, patch}, Spec: c.spec(t, a), Task: c.view(t, a), ExpiresAt: until}, nil
}

func (c *Coordinator) spec(t *task, a agon.Arena) ReplaySpec {
	v := c.view(t, a)
	env := t.private.BenchmarkEnv
	if env == nil {
		env = map[string]string{}
	}
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
		doc, err = tx.Doc(store.ResearchJobs, id)
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
		_, err = c.cfg.Platform.Result(ctx, platform.Caller{Hotkey: hotkey}, id, engineResult(t, j.Token, run.Tasks[0].Key, r.Status, observed))
		if err != nil {
			return nil, err
		}
		j.Status, j.Observed, j.Notes, j.Log = r.Status, observed, r.Notes, redact(r.Log, t.private.BenchmarkEnv)
		if doc.Body, err = encode(j); err != nil {
			return nil, err
		}
		from := doc.Status
		doc.Status = "done"
		err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.SetDoc(store.ResearchJobs, doc, from) })
		if err != nil && !errors.Is(err, store.ErrNotFound) { // the same result came twice at once
			return nil, err
		}
	}
	return c.Verification(ctx, id)
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
		sc.Metrics[kr.MetricVerdict], sc.Metrics[kr.MetricObserved] = score.VerdictAccepted, x
		for k, v := range observed {
			sc.Metrics[kr.MetricPrefix+k] = v
		}
	case kr.StatusRejected:
		sc.Metrics[kr.MetricVerdict] = score.VerdictRejected
		sc.Detail = "rejected by the validator"
	default:
		sc.Metrics[kr.MetricVerdict] = score.VerdictError
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
			return nil, refuse(422, "bad_observed_metrics", "observed_metrics: %.40q is no finite number", k).with("field", "observed_metrics")
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

// Verification returns one replay by its id.
func (c *Coordinator) Verification(ctx context.Context, id string) (*Verification, error) {
	var out *Verification
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		at, err := tx.AttemptByLease(id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("verification", id)
		}
		if err != nil {
			return err
		}
		list, err := c.verifications(tx, at.Submission)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].ID == id {
				out = &list[i]
				return nil
			}
		}
		return notFound("verification", id)
	})
	return out, err
}

// Verifications lists the replays of a submission, oldest first.
func (c *Coordinator) Verifications(ctx context.Context, submission, status string) ([]Verification, error) {
	out := []Verification{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, err := c.verifications(tx, submission)
		for _, v := range list {
			if status == "" || v.Status == status {
				out = append(out, v)
			}
		}
		return err
	})
	return out, err
}

func (c *Coordinator) verifications(tx *store.Tx, submission string) ([]Verification, error) {
	row, err := tx.Doc(store.ResearchSubmissions, submission)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("submission", submission)
	}
	if err != nil {
		return nil, err
	}
	s, err := decode[storedSubmission](row)
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(row.Task)
	if err != nil {
		return nil, err
	}
	a, err := tx.Arena(t.arena)
	if err != nil {
		return nil, err
	}
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return nil, err
	}
	out := []Verification{}
	for _, r := range runs {
		list, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return nil, err
		}
		for _, at := range list {
			v := Verification{
				ID: at.Lease, Submission: submission, TaskID: t.id, Validator: at.Validator, Duel: r.Rival != nil, Counted: at.Counted, Late: at.Late,
				Trust: 1, Run: r.RunSpec.Run, Driver: at.Driver.Name, CreatedAt: Time{at.LeasedAt}, ExpiresAt: Time{at.LeaseUntil}, EndedAt: Time{at.EndedAt},
				Status: VerificationPending, Observed: map[string]float64{},
			}
			if v.Trust, err = validatorTrust(tx, *a.Contest, at.Validator); err != nil {
				return nil, err
			}
			switch {
			case at.Live():
			case at.Counted:
				x, _ := kr.ReplayOf(r.Run, nil)
				v.Status, v.Observed, v.Notes = statusOf(x.Verdict), observedOf(r.Scores[0].Metrics), r.Scores[0].Detail
				if agreed, ok := s.Observed[t.pub.MetricName]; ok && x.Verdict == score.VerdictAccepted && r.Rival == nil {
					d := x.Value - agreed
					v.Deviation = &d
				}
			case at.State == store.AttemptExpired:
				v.Status, v.Notes = VerificationExpired, at.Reason
			default:
				v.Status, v.Notes = kr.StatusError, at.Reason
			}
			if d, err := tx.Doc(store.ResearchJobs, at.Lease); err == nil {
				j, err := decode[storedJob](d)
				if err != nil {
					return nil, err
				}
				if j.Status != "" {
					v.Status, v.Observed = j.Status, j.Observed
					if j.Notes != "" {
						v.Notes = j.Notes
					}
				}
			} else if !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			out = append(out, v)
		}
	}
	return out, nil
}
