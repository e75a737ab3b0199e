package miner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// reviewFile is what an agent leaves of its evaluation.
const reviewFile = "peer_review.json"

// maxReview bounds it, in bytes.
const maxReview = 256 << 10

// ErrNothingToEvaluate says that no submission waits for this miner's evaluation.
var ErrNothingToEvaluate = errors.New("no submission waits for your evaluation")

// PeerCycle is what one evaluation did.
type PeerCycle struct {
	Task       *coordinator.TaskView   `json:"task"`
	Submission *coordinator.Submission `json:"submission"`
	Detail     json.RawMessage         `json:"detail"`
	Review     *Review                 `json:"review"`
	Evaluation json.RawMessage         `json:"peer_evaluation"`
	Consensus  json.RawMessage         `json:"consensus"`
	Execution  *Execution              `json:"execution,omitempty"`
	Error      string                  `json:"error,omitempty"`
}

// Review is what an agent says of another miner's submission.
type Review struct {
	Status   string          `json:"status"` // accepted or rejected
	Observed json.RawMessage `json:"observed_metrics"`
	Notes    string          `json:"notes,omitempty"`
}

func peerMode(mode string) bool { return mode == kr.ModePeer || mode == kr.ModeSelfValidation }

// Evaluate evaluates the oldest submission of another miner that waits for it:
// its change is laid over a clean clone, the agent's command measures it there
// and leaves its review, and the review is sent. A change that the task does
// not allow is rejected without running anything.
func (a *Agent) Evaluate(ctx context.Context) (*PeerCycle, error) {
	out := &PeerCycle{}
	var err error
	if out.Task, err = a.Client.Task(ctx, a.TaskID, a.Slug, true); err != nil {
		return out, err
	}
	if !peerMode(out.Task.CompetitionMode) {
		return out, fmt.Errorf("task %s is %s: validators replay it, peers do not", out.Task.Slug, out.Task.CompetitionMode)
	}
	if out.Submission, err = a.waiting(ctx, out.Task.ID); err != nil {
		return out, err
	}
	id := out.Submission.ID
	if out.Detail, err = a.Client.Do(ctx, http.MethodGet, "/api/v1/submissions/"+id+"/detail", nil, nil, true); err != nil {
		return out, err
	}
	if err := a.review(ctx, out); err != nil {
		return out, err
	}
	fields := []Field{{"status", out.Review.Status}, {"observed_metrics", out.Review.Observed}}
	if out.Review.Notes != "" {
		fields = append(fields, Field{"notes", out.Review.Notes})
	}
	body, err := Dumps(fields)
	if err != nil {
		return out, err
	}
	if out.Evaluation, err = a.Client.Do(ctx, http.MethodPost, "/api/v1/submissions/"+id+"/peer-evaluate", nil, body, true); err != nil {
		return out, err
	}
	out.Consensus, err = a.Client.Do(ctx, http.MethodGet, "/api/v1/submissions/"+id+"/peer-consensus", nil, nil, false)
	return out, err
}

// waiting is the oldest pending submission of another miner that this one may
// and did not yet evaluate.
func (a *Agent) waiting(ctx context.Context, task string) (*coordinator.Submission, error) {
	me := a.Client.Key.SS58()
	b, err := a.Client.Do(ctx, http.MethodGet, "/api/v1/submissions", []Field{{"task_id", task}, {"status", kr.StatusPending}, {"limit", coordinator.MaxLimit}}, nil, true)
	if err != nil {
		return nil, err
	}
	var list []coordinator.Submission
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("read submissions: %w", err)
	}
	slices.SortStableFunc(list, func(x, y coordinator.Submission) int { return x.CreatedAt.Compare(y.CreatedAt.Time) })
	for i, s := range list {
		if s.Miner == me {
			continue
		}
		mine, err := get[[]coordinator.Peer](ctx, a.Client, "/api/v1/peer-evaluations", Field{"submission_id", s.ID}, Field{"evaluator_hotkey", me})
		if err != nil {
			return nil, err
		}
		c, err := get[coordinator.Consensus](ctx, a.Client, "/api/v1/submissions/"+s.ID+"/peer-consensus")
		if err != nil {
			return nil, err
		}
		if len(mine) == 0 && (len(c.Committee) == 0 || slices.Contains(c.Committee, me)) {
			return &list[i], nil
		}
	}
	return nil, ErrNothingToEvaluate
}

// review fills in the review: by the task's surface, or by the agent.
func (a *Agent) review(ctx context.Context, out *PeerCycle) error {
	t := out.Task
	var d coordinator.Detail
	if err := json.Unmarshal(out.Detail, &d); err != nil {
		return fmt.Errorf("read submission: %w", err)
	}
	if d.Submission.Patch == nil {
		return fmt.Errorf("the coordinator does not show the patch of submission %s", out.Submission.ID)
	}
	w, err := a.clone(ctx, t, "peer-review-", reviewFile)
	if err != nil {
		return err
	}
	if !a.Keep {
		defer os.RemoveAll(w.dir)
	}
	patch := []byte(*d.Submission.Patch)
	if len(patch) > 0 {
		base, err := BaseTree(ctx, w.repo, "HEAD")
		if err != nil {
			return err
		}
		res, err := surface.Check(base, patch, t.Rule())
		if err != nil {
			return fmt.Errorf("check patch: %w", err)
		}
		if !res.OK {
			out.Review = &Review{Status: kr.StatusRejected, Observed: json.RawMessage("{}"), Notes: "the change is not allowed: " + res.Error()}
			return nil
		}
		if err := overlay(w.repo, res.Changes); err != nil {
			return err
		}
	}
	if err := a.reviewFiles(ctx, w, t, out, patch); err != nil {
		return err
	}
	if out.Execution, err = a.launch(ctx, w, t, ""); err != nil {
		return err
	}
	out.Review, err = readReview(w.sidecar, t.MetricName)
	return err
}

func (a *Agent) reviewFiles(ctx context.Context, w *workspace, t *coordinator.TaskView, out *PeerCycle, patch []byte) error {
	onboard, err := a.Client.Do(ctx, http.MethodGet, "/api/v1/tasks/"+t.ID+"/onboard.md", nil, nil, false)
	if err != nil {
		return err
	}
	intro := fmt.Sprintf(`# Evaluate a submission to %s

Another miner's change is applied in repo/; patch.diff and detail.json say what it is. It is foreign code: run it only where it can harm nothing.
Measure `+"`%s`"+` (%s) as onboard.md says, do not copy what is claimed. Write %s:

    {"status": "accepted" or "rejected", "observed_metrics": {"%s": number}, "notes": "why"}
`, t.Title, t.MetricName, t.MetricDirection, reviewFile, t.MetricName)
	for name, b := range map[string][]byte{w.intro: []byte(intro), filepath.Join(w.dir, "onboard.md"): onboard, filepath.Join(w.dir, "detail.json"): out.Detail, filepath.Join(w.dir, "patch.diff"): patch} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	return nil
}

// overlay writes changes that were checked over a checkout, never outside of it.
func overlay(dir string, changes []surface.Change) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open checkout: %w", err)
	}
	defer root.Close()
	for _, c := range changes {
		if c.NewMode == 0 {
			if err := root.Remove(c.Path); err != nil {
				return fmt.Errorf("apply change: %w", err)
			}
			continue
		}
		if d := path.Dir(c.Path); d != "." {
			if err := root.MkdirAll(d, 0o755); err != nil {
				return fmt.Errorf("apply change: %w", err)
			}
		}
		if err := root.WriteFile(c.Path, c.Data, 0o644); err != nil {
			return fmt.Errorf("apply change: %w", err)
		}
	}
	return nil
}

// readReview reads what the agent left. An acceptance needs the metric: it was
// measured, or it is none.
func readReview(name, metric string) (*Review, error) {
	st, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the agent left no %s: %w", filepath.Base(name), err)
	case !st.Mode().IsRegular() || st.Size() > maxReview:
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", filepath.Base(name), maxReview)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read review: %w", err)
	}
	var r Review
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", filepath.Base(name), err)
	}
	if r.Status != kr.StatusAccepted && r.Status != kr.StatusRejected {
		return nil, fmt.Errorf("%s: status: want accepted or rejected", filepath.Base(name))
	}
	m := map[string]json.RawMessage{}
	if len(r.Observed) == 0 || string(r.Observed) == "null" {
		r.Observed = json.RawMessage("{}")
	} else if err := json.Unmarshal(r.Observed, &m); err != nil {
		return nil, fmt.Errorf("%s: observed_metrics: want an object", filepath.Base(name))
	}
	if _, ok := m[metric]; !ok && r.Status == kr.StatusAccepted {
		return nil, fmt.Errorf("%s: observed_metrics has no %s", filepath.Base(name), metric)
	}
	r.Notes = strings.ToValidUTF8(r.Notes, "\uFFFD")
	return &r, nil
}
