package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/internal/served"
)

// evalRun is a lease that a foreign validator holds: what it was given and
// what it has reported.
type evalRun struct {
	ID         string             `json:"id"`
	Validator  string             `json:"validator"`
	Lease      string             `json:"lease"`
	Token      string             `json:"token"` // of the lease: the folder is its owner's alone
	Run        string             `json:"run"`
	Attempt    int                `json:"attempt"`
	Submission string             `json:"submission"`
	Until      time.Time          `json:"until"`
	Suite      int                `json:"suite_id"`
	Tasks      []agon.TaskRef     `json:"tasks"`
	Problems   []string           `json:"problems"`            // ids, by task
	Reports    map[string]report  `json:"reports"`             // by problem id
	Logs       map[string]logFile `json:"logs"`                // by problem id
	Secret     string             `json:"secret"`              // of links to code and uploads
	Inference  string             `json:"inference,omitempty"` // secret of its token for models; empty: it has none
	LentUntil  time.Time          `json:"lent_until,omitzero"` // when that token ends at the latest
	Own        string             `json:"own,omitempty"`       // provider whose credential of the miner it got instead
	Policy     agon.Policy        `json:"policy"`
	Settled    *settled           `json:"settled,omitempty"` // what its lent session came to
	Events     int64              `json:"events,omitempty"`  // of its lent session that the platform has
	Done       bool               `json:"done"`
	Final      json.RawMessage    `json:"final,omitempty"` // the reply to its completion
}

// report is what a validator says of one problem.
type report struct {
	ProblemID string   `json:"problem_id"`
	Status    string   `json:"status"`
	Score     *float64 `json:"score,omitempty"`
	Reasoning *float64 `json:"reasoning_score,omitempty"`
	Failed    int      `json:"inference_failure_count,omitempty"`
	Total     int      `json:"inference_total,omitempty"`
	Seconds   float64  `json:"execution_time,omitempty"`
	LogsKey   *string  `json:"logs_s3_key,omitempty"`
}

type logFile struct {
	Key    string      `json:"key"`
	Bytes  int64       `json:"bytes"`            // that were announced
	Digest agon.Digest `json:"digest,omitempty"` // of documents of older programs
	Sum    []byte      `json:"sum,omitempty"`    // of the bytes: unlike a digest it keeps them from no collection
}

// digest is what was uploaded; "" where nothing was.
func (l logFile) digest() agon.Digest {
	if len(l.Sum) > 0 {
		return agon.Digest(agon.DigestPrefix + hex.EncodeToString(l.Sum))
	}
	return l.Digest
}

var statuses = []string{"PENDING", "RUNNING", "SUCCESS", "FAILED", "SKIPPED", "TIMED_OUT"}

func randomHex(n int) (string, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("read entropy: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// claim is POST /v1/validator/work/claim.
func (b *Backend) claim(w http.ResponseWriter, r *http.Request) {
	id, body, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	var in struct { // told for people; nothing is decided by it
		Versions map[string]string `json:"service_versions"`
	}
	if !decode(w, body, &in) {
		return
	}
	l, err := b.cfg.Platform.Claim(r.Context(), platform.Caller{Hotkey: id.Hotkey}, client.ClaimRequest{
		Arenas: []string{b.cfg.Arena}, Kinds: []string{"shopping"}, Driver: "docker",
	})
	var e *agon.Error
	switch {
	case errors.As(err, &e) && e.Status == http.StatusForbidden:
		refuse(w, http.StatusForbidden, "NOT_REGISTERED_AS_VALIDATOR", "%s", e.Message)
		return
	case errors.As(err, &e) && (e.Status == http.StatusConflict || e.Status == http.StatusTooManyRequests):
		refuse(w, http.StatusConflict, "AT_CAPACITY", "%s", e.Message)
		return
	case err != nil:
		b.broken(w, "claim", err)
		return
	case l == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// The lease's arena has the tasks of the run only: a suite is all public ones.
	arena, err := b.cfg.Platform.Arena(r.Context(), b.cfg.Arena)
	if err != nil {
		b.giveBack(r.Context(), id.Hotkey, l, err)
		b.broken(w, "claim", err)
		return
	}
	run, err := b.take(r.Context(), id.Hotkey, l, suiteID(arena.Tasks))
	if err != nil {
		b.giveBack(r.Context(), id.Hotkey, l, err)
		b.broken(w, "claim", err)
		return
	}
	out := map[string]any{
		"eval_run_id": run.ID, "agent_version_id": versionID(run.Submission), "suite_id": run.Suite, "lease_expires_at": stamp(run.Until),
		"code_download_url":   fmt.Sprintf("%s/v1/validator/evaluation-runs/%s/code?key=%s", b.cfg.Base(), run.ID, run.Secret),
		"chutes_access_token": nil,
	}
	b.fund(out, run, l.Submission.Miner)
	reply(w, http.StatusOK, out)
}

// take notes a lease before it is told.
func (b *Backend) take(ctx context.Context, hotkey string, l *client.Lease, suite int) (*evalRun, error) {
	secret, err := randomHex(32)
	if err != nil {
		return nil, err
	}
	run := &evalRun{
		ID: attemptID(l.Run.Run, l.Attempt), Validator: hotkey, Lease: l.ID, Token: l.Token, Run: l.Run.Run, Attempt: l.Attempt, Submission: l.Submission.ID,
		Until: l.Until, Suite: suite, Tasks: l.Run.Tasks, Reports: map[string]report{}, Logs: map[string]logFile{}, Secret: secret, Policy: l.Run.Policy,
	}
	// A gateway that the arena names elsewhere lends nothing here.
	if b.cfg.Gateway != nil && run.Policy.Gateway == "" {
		if run.Inference, err = randomHex(32); err != nil {
			return nil, err
		}
		run.LentUntil = b.cfg.Now().Add(lendTime)
	}
	for _, t := range l.Run.Tasks {
		raw, err := b.cfg.Problem(ctx, t)
		if err != nil {
			return nil, err
		}
		var p struct {
			ID string `json:"problem_id"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("read problem of %s: %w", t.Key, err)
		}
		if _, err := uuid.Parse(p.ID); err != nil {
			return nil, fmt.Errorf("task %s: problem_id %.80q is not a UUID", t.Key, p.ID)
		}
		run.Problems = append(run.Problems, p.ID)
	}
	return run, b.dir.Put(docName(run.ID), run)
}

// giveBack returns a lease that could not be told to its validator.
func (b *Backend) giveBack(ctx context.Context, hotkey string, l *client.Lease, why error) {
	_, err := b.cfg.Platform.Result(context.WithoutCancel(ctx), platform.Caller{Hotkey: hotkey, Wire: "oro"}, l.ID, client.Result{
		Token: l.Token, Fault: agon.FaultValidator, Outcome: client.OutcomeGivenBack, Reason: why.Error(),
	})
	if err != nil {
		b.cfg.Log.Error("a lease is not given back", "lease", l.ID, "err", err)
	}
}

func docName(id string) string { return "run-" + id }

// open finds the evaluation run of a request, for its owner. One request on a
// run at a time: done must be called.
func (b *Backend) open(w http.ResponseWriter, id, hotkey string) (run *evalRun, done func(), ok bool) {
	u, err := uuid.Parse(id)
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "eval_run_id")
		return nil, nil, false
	}
	b.mu.Lock()
	lock := b.held[u.String()]
	if lock == nil {
		lock = &sync.Mutex{}
		b.held[u.String()] = lock
	}
	b.mu.Unlock()
	lock.Lock()
	run = &evalRun{}
	found, err := b.dir.Get(docName(u.String()), run)
	switch {
	case err != nil:
		b.broken(w, "read evaluation run", err)
	case !found:
		refuse(w, http.StatusNotFound, "EVAL_RUN_NOT_FOUND", "Evaluation run not found")
	case run.Validator != hotkey:
		refuse(w, http.StatusConflict, "NOT_RUN_OWNER", "This evaluation run belongs to another validator")
	default:
		return run, lock.Unlock, true
	}
	lock.Unlock()
	if !found {
		b.mu.Lock()
		delete(b.held, u.String()) // foreign names must not pile up
		b.mu.Unlock()
	}
	return nil, nil, false
}

// heartbeat is POST …/heartbeat; the first one says that the run is played.
func (b *Backend) heartbeat(w http.ResponseWriter, r *http.Request) {
	id, _, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	run, done, ok := b.open(w, r.PathValue("id"), id.Hotkey)
	if !ok {
		return
	}
	defer done()
	if run.Done {
		refuse(w, http.StatusConflict, "LEASE_EXPIRED", "The lease of this evaluation run has ended")
		return
	}
	h, err := b.beat(r.Context(), id.Hotkey, run)
	switch {
	case err != nil:
		b.broken(w, "heartbeat", err)
		return
	case h.Cancel:
		refuse(w, http.StatusConflict, "LEASE_EXPIRED", "The lease of this evaluation run has expired")
		return
	}
	run.Until = h.Until
	if err := b.dir.Put(docName(run.ID), run); err != nil {
		b.broken(w, "heartbeat", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"lease_expires_at": stamp(run.Until)})
}

// problems is GET …/problems: hidden ones too, for who holds them.
func (b *Backend) problems(w http.ResponseWriter, r *http.Request) {
	id, _, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	run, done, ok := b.open(w, r.PathValue("id"), id.Hotkey)
	if !ok {
		return
	}
	defer done()
	if run.Done || b.cfg.Now().After(run.Until) {
		refuse(w, http.StatusConflict, "LEASE_EXPIRED", "The lease of this evaluation run has ended")
		return
	}
	type problem struct {
		ID       string          `json:"problem_id"`
		Suite    int             `json:"suite_id"`
		Metadata json.RawMessage `json:"metadata"`
	}
	out := []problem{}
	for i, t := range run.Tasks {
		raw, err := b.cfg.Problem(r.Context(), t)
		if err != nil {
			b.broken(w, "problems", err)
			return
		}
		out = append(out, problem{run.Problems[i], run.Suite, raw})
	}
	reply(w, http.StatusOK, map[string]any{"problems": out})
}

// progress is POST …/progress.
func (b *Backend) progress(w http.ResponseWriter, r *http.Request) {
	id, body, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	var in struct {
		Problems []report `json:"problems"`
	}
	if !decode(w, body, &in) {
		return
	}
	run, done, ok := b.open(w, r.PathValue("id"), id.Hotkey)
	if !ok {
		return
	}
	defer done()
	if run.Done {
		refuse(w, http.StatusConflict, "RUN_ALREADY_COMPLETE", "This evaluation run is complete")
		return
	}
	for _, p := range in.Problems {
		switch {
		case !slices.Contains(run.Problems, p.ProblemID):
			refuse(w, http.StatusBadRequest, "INVALID_PROBLEM_ID", "Problem %.80q is not part of this evaluation run", p.ProblemID)
			return
		case !slices.Contains(statuses, p.Status):
			invalid(w, "enum", "Input should be one of "+strings.Join(statuses, ", "), "problems", p.ProblemID, "status")
			return
		case p.Score != nil && !(*p.Score >= 0 && *p.Score <= 1), p.Reasoning != nil && !(*p.Reasoning >= 0 && *p.Reasoning <= 1):
			invalid(w, "value_error", "a score is from 0 to 1", "problems", p.ProblemID, "score")
			return
		}
	}
	for _, p := range in.Problems {
		old := run.Reports[p.ProblemID]
		// An update of the logs alone keeps the score.
		if p.Score == nil {
			p.Score = old.Score
		}
		if p.Reasoning == nil {
			p.Reasoning = old.Reasoning
		}
		if p.LogsKey == nil {
			p.LogsKey = old.LogsKey
		}
		run.Reports[p.ProblemID] = p
	}
	if err := b.dir.Put(docName(run.ID), run); err != nil {
		b.broken(w, "progress", err)
		return
	}
	reply(w, http.StatusOK, map[string]bool{"accepted": true})
}

// presign announces one trajectory.
func (b *Backend) presign(w http.ResponseWriter, r *http.Request) {
	id, body, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	var in struct {
		Length  int64  `json:"content_length"`
		Run     string `json:"eval_run_id"`
		Problem string `json:"problem_id"`
		Type    string `json:"content_type"`
	}
	if !decode(w, body, &in) {
		return
	}
	run, done, ok := b.open(w, in.Run, id.Hotkey)
	if !ok {
		return
	}
	defer done()
	switch {
	case !slices.Contains(run.Problems, in.Problem):
		refuse(w, http.StatusNotFound, "PROBLEM_NOT_FOUND", "Problem %.80q is not part of this evaluation run", in.Problem)
		return
	case in.Length > maxUpload:
		refuse(w, http.StatusBadRequest, "FILE_TOO_LARGE", "content_length: at most %d bytes", maxUpload)
		return
	case in.Length < 1:
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "content_length: want at least 1")
		return
	case len(in.Type) > 100:
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "content_type: at most 100 bytes") // what comes is gzip whatever it says
		return
	}
	key := fmt.Sprintf("trajectories/%s/%s.json.gz", run.ID, in.Problem)
	run.Logs[in.Problem] = logFile{Key: key, Bytes: in.Length}
	if err := b.dir.Put(docName(run.ID), run); err != nil {
		b.broken(w, "presign", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"upload_url": fmt.Sprintf("%s/v1/validator/uploads/%s/%s?key=%s", b.cfg.Base(), run.ID, in.Problem, run.Secret), "method": "PUT",
		"results_s3_key": key, "expires_at": stamp(b.cfg.Now().Add(time.Hour)),
	})
}

// keyed opens a run for who brings its secret.
func (b *Backend) keyed(w http.ResponseWriter, r *http.Request) (*evalRun, func(), bool) {
	u, err := uuid.Parse(r.PathValue("id"))
	run := &evalRun{}
	found := false
	if err == nil {
		found, err = b.dir.Get(docName(u.String()), run)
	}
	if err != nil || !found || subtle.ConstantTimeCompare([]byte(run.Secret), []byte(r.URL.Query().Get("key"))) != 1 {
		refuse(w, http.StatusForbidden, "FORBIDDEN", "This link is not valid")
		return nil, nil, false
	}
	return b.open(w, run.ID, run.Validator)
}

// upload takes the bytes that were announced.
func (b *Backend) upload(w http.ResponseWriter, r *http.Request) {
	run, done, ok := b.keyed(w, r)
	if !ok {
		return
	}
	defer done()
	problem := r.PathValue("problem")
	log, known := run.Logs[problem]
	if !known || run.Done {
		refuse(w, http.StatusForbidden, "FORBIDDEN", "This upload was not announced")
		return
	}
	body, err := served.Body(w, r, maxUpload)
	if err != nil || int64(len(body)) != log.Bytes || !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		refuse(w, http.StatusBadRequest, "BAD_UPLOAD", "want the %d gzip bytes that were announced", log.Bytes)
		return
	}
	sum := sha256.Sum256(body)
	log.Sum = sum[:]
	if err := b.cfg.Platform.PutBlob(r.Context(), platform.Caller{Hotkey: run.Validator}, run.Lease, log.digest(), body); err != nil {
		b.broken(w, "upload", err)
		return
	}
	run.Logs[problem] = log
	if err := b.dir.Put(docName(run.ID), run); err != nil {
		b.broken(w, "upload", err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// code hands the agent's file to who holds the run.
func (b *Backend) code(w http.ResponseWriter, r *http.Request) {
	run, done, ok := b.keyed(w, r)
	if !ok {
		return
	}
	defer done()
	files, err := b.cfg.Platform.SubmissionFiles(r.Context(), operator, run.Submission)
	if err != nil {
		b.broken(w, "code", err)
		return
	}
	for _, f := range files {
		if f.Path == agentFile {
			w.Header().Set("Content-Type", "text/x-python; charset=utf-8")
			sum := sha256.Sum256(f.Content)
			w.Header().Set("X-Content-SHA256", hex.EncodeToString(sum[:]))
			_, _ = w.Write(f.Content) // a client that is gone reads no error
			return
		}
	}
	refuse(w, http.StatusNotFound, "NOT_FOUND", "The agent has no file")
}

// complete is POST …/complete.
func (b *Backend) complete(w http.ResponseWriter, r *http.Request) {
	id, body, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	var in struct {
		Status     string             `json:"terminal_status"`
		Score      *float64           `json:"validator_score"`
		Components map[string]float64 `json:"score_components"`
		Failure    string             `json:"failure_reason"`
		Metadata   *struct {
			ExitCode *int    `json:"exit_code"`
			Seconds  float64 `json:"duration_seconds"`
			Stderr   *string `json:"stderr_tail"`
		} `json:"sandbox_metadata"`
	}
	if !decode(w, body, &in) {
		return
	}
	run, done, ok := b.open(w, r.PathValue("id"), id.Hotkey)
	if !ok {
		return
	}
	defer done()
	switch {
	case run.Done:
		refuse(w, http.StatusConflict, "RUN_ALREADY_COMPLETE", "This evaluation run is complete")
		return
	case !slices.Contains([]string{"SUCCESS", "FAILED", "TIMED_OUT"}, in.Status):
		invalid(w, "enum", "Input should be SUCCESS, FAILED or TIMED_OUT", "terminal_status")
		return
	case in.Status == "SUCCESS" && (in.Score == nil || math.IsNaN(*in.Score)):
		refuse(w, http.StatusBadRequest, "MISSING_SCORE", "A successful run has a validator_score")
		return
	case in.Score != nil && !(*in.Score >= 0 && *in.Score <= 1):
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "validator_score: a score is from 0 to 1")
		return
	}
	res := client.Result{Token: run.Token, Outcome: agon.OutcomeOK, Driver: agon.Driver{Name: "docker"}}
	if in.Metadata != nil && in.Metadata.Seconds > 0 && in.Metadata.Seconds < 1e6 {
		res.BoxMS = int64(in.Metadata.Seconds * 1000)
	}
	if in.Status == "SUCCESS" {
		res.Scores = run.scores(*in.Score, in.Components)
	} else {
		// What a foreign validator calls a failure proves nothing against the agent: it is played elsewhere.
		res.Fault, res.Outcome = agon.FaultValidator, strings.ToLower(in.Status)
		res.Reason = plain.Head(plain.Line(in.Failure), 500)
	}
	for _, p := range run.Problems {
		if d := run.Logs[p].digest(); d != "" && !slices.Contains(res.Uploads, d) {
			res.Uploads = append(res.Uploads, d)
		}
	}
	if err := b.settle(r.Context(), run, &res); err != nil {
		b.broken(w, "complete", err)
		return
	}
	if run.Own != "" { // its calls left no receipts here: that is said where they would stand
		text, _ := json.Marshal(map[string]string{"text": "the miner signed that this validator may have its own credential of " + run.Own + ": calls that it paid went past the gateway"}) // a text encodes
		res.Events = append(res.Events, agon.Event{Seq: run.Events + 1, Type: agon.EventNote, At: b.cfg.Now(), Data: text})
	}
	got, err := b.cfg.Platform.Result(r.Context(), platform.Caller{Hotkey: id.Hotkey, Wire: "oro"}, run.Lease, res)
	switch {
	case err != nil:
		b.broken(w, "complete", err)
		return
	case got.Late:
		run.Done = true
		_ = b.dir.Put(docName(run.ID), run) // the platform's own record decides
		refuse(w, http.StatusConflict, "LEASE_EXPIRED", "The lease of this evaluation run has expired")
		return
	}
	b.completed(w, r, run, in.Status, got)
}

func (b *Backend) completed(w http.ResponseWriter, r *http.Request, run *evalRun, status string, got *client.ResultReply) {
	work := map[string]any{"included_success_count": 0, "required_successes": 1, "is_closed": got.State.Final()}
	if got.Counted {
		work["included_success_count"] = 1
	}
	out := map[string]any{
		"eval_run_id": run.ID, "status": status, "work_item": work, "agent_version_became_eligible": false, "final_score": nil,
	}
	if s, err := b.cfg.Platform.Submission(r.Context(), operator, run.Submission); err == nil && s.Score != nil {
		out["final_score"], out["agent_version_became_eligible"] = *s.Score, *s.Score > 0
	}
	raw, err := json.Marshal(out)
	if err != nil {
		b.broken(w, "complete", err)
		return
	}
	run.Done, run.Final = true, raw
	if err := b.dir.Put(docName(run.ID), run); err != nil {
		b.broken(w, "complete", err)
		return
	}
	reply(w, http.StatusOK, out)
}

// scores are a run's scores by task: each solved problem is worth the run's
// coefficient. Where nothing was reported by problem, each has the run's score.
func (run *evalRun) scores(total float64, components map[string]float64) []agon.Score {
	coefficient := 1.0
	if c, ok := components["reasoning_coefficient"]; ok && c >= 0 && c <= 1 {
		coefficient = c
	}
	out := make([]agon.Score, len(run.Tasks))
	for i, t := range run.Tasks {
		s := agon.Score{Run: run.Run, Task: t.Key, Scorer: "oro-validator", Metrics: map[string]float64{"coefficient": coefficient}}
		p, ok := run.Reports[run.Problems[i]]
		switch {
		case len(run.Reports) == 0:
			s.Value = total
		case ok && p.Status == "SUCCESS" && p.Score != nil && *p.Score >= 1:
			s.Value, s.Solved = coefficient, true
		}
		if ok {
			s.Detail = p.Status
			s.Metrics["seconds"] = p.Seconds
			s.Metrics["model_calls"], s.Metrics["failed_calls"] = float64(p.Total), float64(p.Failed)
			if p.Reasoning != nil {
				s.Metrics["quality"] = *p.Reasoning
			}
		}
		out[i] = s
	}
	return out
}
