package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
)

// Bounds of lists.
const (
	DefaultLimit = 200
	MaxLimit     = 1000
)

// Viewer is who reads: nobody (zero), a hotkey, or the admin.
type Viewer struct {
	Hotkey string
	Admin  bool
}

// Tasks lists the open tasks, oldest first.
func (c *Coordinator) Tasks(ctx context.Context) ([]TaskView, error) {
	list := c.list()
	slices.SortFunc(list, func(a, b *task) int {
		if n := a.created.Compare(b.created); n != 0 {
			return n
		}
		return strings.Compare(a.pub.Slug, b.pub.Slug)
	})
	out := make([]TaskView, 0, len(list))
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		for _, t := range list {
			a, err := tx.Arena(t.arena)
			if err != nil {
				return err
			}
			out = append(out, c.view(t, a))
		}
		return nil
	})
	return out, err
}

// Task returns one task.
func (c *Coordinator) Task(ctx context.Context, id string) (*TaskView, error) {
	t, err := c.taskOf(id)
	if err != nil {
		return nil, err
	}
	var v TaskView
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(t.arena)
		if err != nil {
			return err
		}
		v = c.view(t, a)
		return nil
	})
	return &v, err
}

// SetState pauses, resumes or closes a task. Closed is for good.
func (c *Coordinator) SetState(ctx context.Context, id, state string) (*TaskView, error) {
	t, err := c.taskOf(id)
	if err != nil {
		return nil, err
	}
	to := map[string]agon.ArenaState{StateLive: agon.ArenaOpen, StatePaused: agon.ArenaPaused, StateClosed: agon.ArenaClosed}[state]
	v, err := c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.State == StateClosed && state != StateClosed {
		return nil, refuse(409, "task_closed", "task %s is closed for good", t.pub.Slug)
	}
	if err := c.cfg.Platform.SetArenaState(ctx, platform.Caller{Operator: true}, t.arena, to, "the task is "+state); err != nil {
		return nil, err
	}
	return c.Task(ctx, id)
}

// SubmissionFilter selects submissions; empty fields select all.
type SubmissionFilter struct {
	Task, Status, Miner string
	Limit               int
}

// Submissions lists submissions, newest first, without their patches.
func (c *Coordinator) Submissions(ctx context.Context, f SubmissionFilter) ([]Submission, error) {
	out := []Submission{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableSubmissions, store.DocFilter{Task: f.Task, Status: f.Status, Owner: f.Miner, Limit: f.Limit})
		if err != nil {
			return err
		}
		for _, r := range rows {
			s, err := decode[storedSubmission](r)
			if err != nil {
				return err
			}
			out = append(out, s.Submission)
		}
		return nil
	})
	return out, err
}

// Submission returns one submission with how far its replays are.
func (c *Coordinator) Submission(ctx context.Context, id string) (*Submission, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.Status == kr.StatusPending || s.Best == nil {
		if s.Replays, err = c.progress(ctx, s); err != nil {
			return nil, err
		}
	}
	return &s.Submission, nil
}

func (c *Coordinator) stored(ctx context.Context, id string) (*storedSubmission, error) {
	var s storedSubmission
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		row, err := tx.Doc(tableSubmissions, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("submission", id)
		}
		if err != nil {
			return err
		}
		s, err = decode[storedSubmission](row)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// progress counts the replays of a submission, and who stands before it.
func (c *Coordinator) progress(ctx context.Context, s *storedSubmission) (*Progress, error) {
	p := &Progress{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		runs, err := tx.RunsOf(s.ID)
		if err != nil || len(runs) == 0 {
			return err
		}
		for _, r := range runs {
			switch {
			case r.State == agon.RunQueued:
				p.Queued++
			case r.State.Held():
				p.Playing++
			default:
				p.Done++
			}
		}
		first, err := tx.FirstUndecided(runs[0].Arena)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		p.Ahead = int(max(runs[0].SubSeq-first.Seq, 0)) // an upper bound: decided ones between them are counted
		return err
	})
	return p, err
}

// mayReadPatch says who may read the patch and the logs of a submission: its
// miner, the admin, who replays or evaluates it, and everybody once it is decided.
func (c *Coordinator) mayReadPatch(ctx context.Context, v Viewer, s *storedSubmission) (bool, error) {
	if v.Admin || v.Hotkey == s.Miner || s.Best != nil || s.Status == kr.StatusRejected && s.DuplicateOf == nil {
		return true, nil
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return false, err
	}
	if s.Status == kr.StatusAccepted && (t.pub.CompetitionMode == kr.ModePeer || t.pub.CompetitionMode == kr.ModeSelfValidation) {
		return true, nil
	}
	if v.Hotkey == "" {
		return false, nil
	}
	if t.pub.CompetitionMode == kr.ModePeer || t.pub.CompetitionMode == kr.ModeSelfValidation {
		return c.mayEvaluate(ctx, t, v.Hotkey, s)
	}
	var had bool
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		had, err = tx.HasAttempt(s.ID, v.Hotkey)
		return err
	})
	return had, err
}

// Detail is a submission with all that is known of it. Patch and Spec are null
// for those who may not read them yet.
type Detail struct {
	Submission    DetailSubmission `json:"submission"`
	Verifications []Verification   `json:"verifications"`
	Peers         []Peer           `json:"peer_evaluations"`
	Consensus     *Consensus       `json:"peer_consensus"`
	Ideas         []Idea           `json:"idea_rewards"`
	Metric        string           `json:"metric_name"`
	Direction     string           `json:"metric_direction"`
	NoiseBand     float64          `json:"noise_band"`
	Tolerance     map[string]any   `json:"tolerance"`
	Record        *Record          `json:"record"`
	Lineage       []Link           `json:"lineage"`
}

// DetailSubmission is a submission with its patch where the reader may see it.
type DetailSubmission struct {
	Submission
	Patch       *string `json:"patch"`
	PatchHidden bool    `json:"patch_hidden"`
}

// Link is one step of a lineage: from a record to what it beat.
type Link struct {
	Submission string   `json:"submission_id"`
	Miner      string   `json:"miner_hotkey"`
	Number     int      `json:"number"`
	Value      float64  `json:"value"`
	Delta      *float64 `json:"delta"`
	At         Time     `json:"at"`
}

// Detail returns all of one submission.
func (c *Coordinator) Detail(ctx context.Context, v Viewer, id string) (*Detail, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return nil, err
	}
	pub, err := c.Submission(ctx, id)
	if err != nil {
		return nil, err
	}
	r := t.pub.Rules
	d := &Detail{
		Submission: DetailSubmission{Submission: *pub, PatchHidden: true}, Metric: t.pub.MetricName, Direction: t.pub.MetricDirection,
		NoiseBand: r.Band, Tolerance: map[string]any{"relative": r.Relative, "absolute": r.Absolute, "agree": r.Agree, "replays": r.Replays}, Lineage: []Link{},
	}
	ok, err := c.mayReadPatch(ctx, v, s)
	if err != nil {
		return nil, err
	}
	if ok {
		p, err := c.patch(ctx, s.Files)
		if err != nil {
			return nil, err
		}
		d.Submission.Patch, d.Submission.PatchHidden = &p, false
	}
	if d.Verifications, err = c.Verifications(ctx, id, ""); err != nil {
		return nil, err
	}
	if d.Peers, err = c.Peers(ctx, PeerFilter{Submission: id}); err != nil {
		return nil, err
	}
	if t.pub.CompetitionMode == kr.ModePeer || t.pub.CompetitionMode == kr.ModeSelfValidation {
		if d.Consensus, err = c.Consensus(ctx, id); err != nil {
			return nil, err
		}
	}
	if d.Ideas, err = c.Ideas(ctx, IdeaFilter{Submission: id}); err != nil {
		return nil, err
	}
	d.Record, d.Lineage, err = c.lineage(ctx, id)
	return d, err
}

// lineage follows a record to the first of its task. A submission that is not a
// record has none.
func (c *Coordinator) lineage(ctx context.Context, id string) (*Record, []Link, error) {
	var rec *Record
	links := []Link{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		for at := id; at != "" && len(links) < MaxLimit; {
			row, err := tx.Doc(tableRecords, at)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			r, err := decode[Record](row)
			if err != nil {
				return err
			}
			if rec == nil {
				rec = &r
			}
			links = append(links, Link{r.Submission, r.Miner, r.Number, r.Value, r.Delta, r.At})
			at = val(r.Parent)
		}
		return nil
	})
	return rec, links, err
}

// Records is the ledger of bests of a task, newest first.
func (c *Coordinator) Records(ctx context.Context, taskID string, limit int) ([]Record, error) {
	out := []Record{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableRecords, store.DocFilter{Task: taskID, Limit: limit})
		if err != nil {
			return err
		}
		for _, d := range rows {
			r, err := decode[Record](d)
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// BestView is the present best of a task.
type BestView struct {
	TaskID       string             `json:"task_id"`
	Slug         string             `json:"slug"`
	SubmissionID string             `json:"submission_id"`
	Miner        string             `json:"miner_hotkey"`
	Metric       string             `json:"metric_name"`
	Direction    string             `json:"metric_direction"`
	Value        float64            `json:"metric_value"`
	Observed     map[string]float64 `json:"observed_metrics"`
	Band         float64            `json:"noise_band"`
	Since        Time               `json:"since"`
	Record       Record             `json:"record"`
}

// Best returns the present best of a task.
func (c *Coordinator) Best(ctx context.Context, taskID string) (*BestView, error) {
	t, err := c.taskOf(taskID)
	if err != nil {
		return nil, err
	}
	list, err := c.Records(ctx, taskID, 1)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, refuse(404, "no_best", "task %s has no accepted best yet", t.pub.Slug)
	}
	r := list[0]
	return &BestView{
		TaskID: t.id, Slug: t.pub.Slug, SubmissionID: r.Submission, Miner: r.Miner, Metric: r.Metric, Direction: r.Direction,
		Value: r.Value, Observed: r.Observed, Band: r.Band, Since: r.At, Record: r,
	}, nil
}

// ExecutionLog is the miner's own log of a submission.
func (c *Coordinator) ExecutionLog(ctx context.Context, v Viewer, id string) (string, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return "", err
	}
	if ok, err := c.mayReadPatch(ctx, v, s); err != nil || !ok {
		if err == nil {
			err = refuse(403, "not_public", "the log of submission %s is not public before it is decided", id)
		}
		return "", err
	}
	return s.LogText, nil
}

// ArtifactURI is where the artifact of a submission is.
func (c *Coordinator) ArtifactURI(ctx context.Context, id string) (string, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return "", err
	}
	if u := val(s.ArtifactURI); strings.HasPrefix(u, "https://") {
		return u, nil
	}
	return "", refuse(404, "no_artifact", "submission %s has no artifact", id)
}

// ReplayLog is the newest replay log of a submission, for the admin.
func (c *Coordinator) ReplayLog(ctx context.Context, id string) (string, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return "", err
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return "", err
	}
	var evidence agon.Digest
	var at Time
	log := ""
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableJobs, store.DocFilter{Ref: id, Status: "done", Limit: 1})
		if err != nil {
			return err
		}
		for _, r := range rows {
			j, err := decode[storedJob](r)
			if err != nil {
				return err
			}
			log, at = j.Log, Time{r.At}
		}
		runs, err := tx.RunsOf(id)
		if err != nil {
			return err
		}
		for _, r := range runs {
			list, err := tx.Attempts(r.RunSpec.Run)
			if err != nil {
				return err
			}
			for _, a := range list {
				if a.Evidence != "" && a.EndedAt.After(at.Time) {
					evidence, at = a.Evidence, Time{a.EndedAt}
				}
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if evidence != "" {
		files, err := blob.GetFiles(ctx, c.cfg.Blobs, evidence, blob.TreeLimits{})
		if err != nil {
			return "", fmt.Errorf("read replay log: %w", err)
		}
		var b strings.Builder
		for _, f := range files {
			if strings.HasSuffix(f.Path, ".log") || strings.HasSuffix(f.Path, ".txt") {
				fmt.Fprintf(&b, "== %s ==\n%s\n", f.Path, f.Content)
			}
		}
		log = b.String()
	}
	if log == "" {
		return "", refuse(404, "no_replay_log", "submission %s has no replay log yet", id)
	}
	return redact(log, t.private.BenchmarkEnv), nil
}

// Counts are the totals of the dashboard.
type Counts struct {
	Tasks         map[string]int   `json:"tasks"`
	ActiveClaims  int64            `json:"active_claims"`
	Submissions   map[string]int64 `json:"submissions"`
	Verifications map[string]int64 `json:"verifications"`
	Records       int64            `json:"records"`
	WorkItems     map[string]int64 `json:"work_items"`
	GeneratedAt   Time             `json:"generated_at"`
}

// Dashboard counts what the database holds.
func (c *Coordinator) Dashboard(ctx context.Context) (*Counts, error) {
	d := &Counts{
		Tasks: map[string]int{"total": 0, StateLive: 0, StatePaused: 0, StateClosed: 0}, Submissions: map[string]int64{}, Verifications: map[string]int64{},
		WorkItems: map[string]int64{}, GeneratedAt: Time{c.now()},
	}
	list, err := c.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		d.Tasks["total"]++
		d.Tasks[t.State]++
	}
	claims, err := c.Claims(ctx, "", ClaimActive, 0)
	if err != nil {
		return nil, err
	}
	d.ActiveClaims = int64(len(claims))
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		count := func(into map[string]int64, table store.DocTable, statuses ...string) error {
			for _, s := range statuses {
				n, err := tx.CountDocs(table, store.DocFilter{Status: s})
				if err != nil {
					return err
				}
				into[s] = n
				into["total"] += n
			}
			return nil
		}
		if err := count(d.Submissions, tableSubmissions, kr.StatusPending, kr.StatusAccepted, kr.StatusRejected, kr.StatusError); err != nil {
			return err
		}
		if err := count(d.WorkItems, tableWorkItems, ItemOpen, ItemClaimed, ItemCompleted); err != nil {
			return err
		}
		for _, t := range list {
			q, h, err := tx.Waiting(t.Arena)
			if err != nil {
				return err
			}
			d.Verifications["queued"] += q
			d.Verifications["playing"] += h
		}
		counters, err := tx.Counters(store.ScopeArena, "")
		if err != nil {
			return err
		}
		for _, x := range counters {
			for _, t := range list {
				if x.Name == t.Arena && (x.Key == "scored" || x.Key == "failed") {
					d.Verifications[x.Key] += x.N
				}
			}
		}
		d.Records, err = tx.CountDocs(tableRecords, store.DocFilter{})
		return err
	})
	return d, err
}

// Export is one submission as one trajectory: claim, change, logs, metrics.
func (c *Coordinator) Export(ctx context.Context, v Viewer, id string) ([]byte, error) {
	d, err := c.Detail(ctx, v, id)
	if err != nil {
		return nil, err
	}
	if d.Submission.PatchHidden {
		return nil, refuse(403, "not_public", "submission %s is not public before it is decided", id)
	}
	s, err := c.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return nil, err
	}
	view, err := c.Task(ctx, t.id)
	if err != nil {
		return nil, err
	}
	cl, err := c.ClaimByID(ctx, s.ClaimID)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(map[string]any{
		"schema": "agon-research-1", "task": view, "claim": cl, "submission": d.Submission, "execution_log": s.LogText,
		"verifications": d.Verifications, "record": d.Record, "lineage": d.Lineage,
	})
	if err != nil {
		return nil, fmt.Errorf("export submission: %w", err)
	}
	return append([]byte(redact(string(b), t.private.BenchmarkEnv)), '\n'), nil
}
