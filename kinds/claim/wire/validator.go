package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/internal/folder"
)

// Pair is one script on one claim, for one attempt.
type Pair struct {
	BatchID   string
	Claim     Claim
	Candidate Candidate
	Script    []byte
	Attempt   int // from 1
}

// Result is what came of a pair. A script's failure is a Result with ErrorCode;
// an error of Play is a failure of ours, and the pair is played again.
type Result struct {
	Verdict       int        `json:"verdict"`
	Justification string     `json:"justification"`
	Citations     []Citation `json:"citations"`
	VerdictScore  float64    `json:"verdict_score"`
	SupportScore  float64    `json:"support_score"`
	SupportPass   bool       `json:"justification_pass"`
	Rationale     string     `json:"grader_rationale,omitempty"`
	ErrorCode     string     `json:"error_code,omitempty"`
	ErrorMessage  string     `json:"error_message,omitempty"`
	Session       Session    `json:"session"`
	Usage         Usage      `json:"usage"`
}

// Session is the tool session of a pair.
type Session struct {
	SessionID string    `json:"session_id"`
	UID       int       `json:"uid"`
	Status    string    `json:"status"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Usage is what the pair's receipts add up to.
type Usage struct {
	Prompt      int64   `json:"prompt_tokens"`
	Completion  int64   `json:"completion_tokens"`
	LLMCalls    int     `json:"llm_calls"`
	LLMCost     float64 `json:"llm_cost"`
	SearchCalls int     `json:"search_calls"`
	SearchCost  float64 `json:"search_cost"`
}

// The seed's codes of failure rows.
const (
	CodeInvocation  = "sandbox_invocation_failed"
	CodeUnavailable = "agent_unavailable"
	CodeStart       = "sandbox_start_failed"
)

// ValidatorConfig is what a validator that takes pushed batches is made of.
// All but Compare, Key, Now, Log, Weights and Attempts are needed.
type ValidatorConfig struct {
	// Verifier checks dialect.Caster{Detail: true}; Owner is the subnet owner's coldkey.
	Verifier *dialect.Verifier
	Owner    string
	UID      int // of this validator
	// Fetch gets a script from the platform that pushed the batch.
	Fetch func(ctx context.Context, batch, artifact string) ([]byte, error)
	// Play plays and grades one pair.
	Play func(ctx context.Context, p Pair) (Result, error)
	// Compare says how much of a script is new; nil: there is no judge for that here.
	Compare  func(ctx context.Context, s Similarity) (Likeness, error)
	Dir      string // batches and results: what was accepted is durable
	Attempts int    // at a pair that our side failed; default 3
	// Key signs the status for who asks for a proof of it; nil: nobody does.
	Key auth.Signer
	// Ready says why the validator is not ready; "" or no function: it is.
	Ready func() string
	// Weights tells of the last submission of weights; optional.
	Weights func() (at time.Time, lastError string)
	Now     func() time.Time
	Log     *slog.Logger
}

// Validator queues pushed batches and plays them one at a time, first come
// first served. Results are durable pair by pair: after a kill it goes on
// where it was, and no pair is graded twice.
type Validator struct {
	cfg ValidatorConfig
	dir folder.Folder

	mu      sync.Mutex
	queue   []string        // ids of batches that are not done; guarded by mu
	seen    map[string]bool // every accepted id; guarded by mu
	running string          // guarded by mu
	last    state           // guarded by mu
	wake    chan struct{}
}

type state struct {
	batch, err         string
	started, completed time.Time
}

// queueLimit bounds the batches that wait.
const queueLimit = 64

// record is a stored batch: what was pushed, in order of acceptance.
type record struct {
	N     int   `json:"n"`
	Batch Batch `json:"batch"`
}

// outcome is a stored result.
type outcome struct {
	EvaluationID string `json:"evaluation_id"`
	UID          int    `json:"uid"`
	ArtifactID   string `json:"artifact_id"`
	ClaimID      string `json:"claim_id"`
	Result
}

// NewValidator takes over what is in Dir. Nothing is played before Run.
func NewValidator(c ValidatorConfig) (*Validator, error) {
	if c.Verifier == nil || c.Owner == "" || c.Fetch == nil || c.Play == nil || c.Dir == "" {
		return nil, errors.New("harnyx validator: Verifier, Owner, Fetch, Play and Dir are needed")
	}
	if c.Attempts <= 0 {
		c.Attempts = 3
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	v := &Validator{cfg: c, dir: folder.Folder(c.Dir), seen: map[string]bool{}, wake: make(chan struct{}, 1)}
	names, err := v.dir.Names("push-")
	if err != nil {
		return nil, fmt.Errorf("open batches: %w", err)
	}
	var open []record
	for _, n := range names {
		var r record
		if ok, err := v.dir.Get(n, &r); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		v.seen[r.Batch.BatchID] = true
		done, err := v.results(r.Batch.BatchID)
		if err != nil {
			return nil, err
		}
		if len(done) < total(r.Batch) {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b record) int { return a.N - b.N })
	for _, r := range open {
		v.queue = append(v.queue, r.Batch.BatchID)
	}
	return v, nil
}

func total(b Batch) int { return (len(b.Claims) + len(b.Tasks)) * len(b.Candidates) }

// Handler serves the validator's endpoints; toolHost serves /v1/tools/execute and may be nil.
func (v *Validator) Handler(toolHost http.Handler) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /validator/miner-task-batches/batch", v.accept)
	m.HandleFunc("GET /validator/miner-task-batches/{id}/progress", v.progress)
	m.HandleFunc("POST /validator/miner-task-batches/{id}/similarity", v.similarity)
	m.HandleFunc("GET /validator/status", v.status)
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	m.HandleFunc("GET /readyz", v.readyz)
	if toolHost != nil {
		m.Handle("POST /v1/tools/execute", toolHost)
	}
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	})
	return m
}

func (v *Validator) need() dialect.Need { return dialect.Need{Registered: true, Coldkey: v.cfg.Owner} }

// accept is POST /validator/miner-task-batches/batch. The answer comes when
// the batch is durable. Both spellings of the times are read.
func (v *Validator) accept(w http.ResponseWriter, r *http.Request) {
	id, body, ok := signed(w, r, v.cfg.Verifier, v.need(), maxBatch)
	if !ok {
		return
	}
	var in struct {
		BatchID    string       `json:"batch_id"`
		Entrypoint string       `json:"entrypoint"`
		CutoffISO  *time.Time   `json:"cutoff_at_iso"`
		CreatedISO *time.Time   `json:"created_at_iso"`
		Cutoff     *time.Time   `json:"cutoff_at"`
		Created    *time.Time   `json:"created_at"`
		Claims     *[]Claim     `json:"claims"`
		Candidates *[]Candidate `json:"candidates"`
	}
	if !decode(w, body, false, &in) {
		return
	}
	if in.CutoffISO == nil {
		in.CutoffISO = in.Cutoff
	}
	if in.CreatedISO == nil {
		in.CreatedISO = in.Created
	}
	u, err := uuid.Parse(in.BatchID)
	switch {
	case err != nil:
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "batch_id")
		return
	case in.Entrypoint != Entrypoint:
		invalid(w, "value_error", "want "+Entrypoint, "entrypoint")
		return
	case in.CutoffISO == nil:
		invalid(w, "missing", "Field required", "cutoff_at_iso")
		return
	case in.CreatedISO == nil:
		invalid(w, "missing", "Field required", "created_at_iso")
		return
	case in.Claims == nil || len(*in.Claims) == 0 || len(*in.Claims) > maxClaims:
		invalid(w, "value_error", fmt.Sprintf("want 1 to %d", maxClaims), "claims")
		return
	case in.Candidates == nil || len(*in.Candidates) == 0 || len(*in.Candidates) > maxCandidates:
		invalid(w, "value_error", fmt.Sprintf("want 1 to %d", maxCandidates), "candidates")
		return
	}
	b := Batch{BatchID: u.String(), Entrypoint: in.Entrypoint, CutoffAt: *in.CutoffISO, CreatedAt: *in.CreatedISO, Claims: *in.Claims, Candidates: *in.Candidates}
	ids := map[string]bool{}
	for i := range b.Claims {
		if err := b.Claims[i].check(); err != nil || ids[b.Claims[i].ClaimID] {
			invalid(w, "value_error", fmt.Sprint(cmpErr(err, "claim_id is given twice")), "claims", i)
			return
		}
		ids[b.Claims[i].ClaimID] = true
	}
	for i, c := range b.Candidates {
		if err := c.check(); err != nil || ids[c.ArtifactID] {
			invalid(w, "value_error", fmt.Sprint(cmpErr(err, "artifact_id is given twice")), "candidates", i)
			return
		}
		ids[c.ArtifactID] = true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.seen[b.BatchID] {
		if len(v.queue) >= queueLimit {
			reply(w, http.StatusServiceUnavailable, map[string]string{"detail": "too many batches are waiting"})
			return
		}
		if err := v.dir.Put("push-"+b.BatchID, record{len(v.seen) + 1, b}); err != nil {
			v.cfg.Log.Error("storing a batch", "err", err)
			reply(w, http.StatusInternalServerError, map[string]string{"detail": "internal error"})
			return
		}
		v.seen[b.BatchID] = true
		v.queue = append(v.queue, b.BatchID)
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	reply(w, http.StatusOK, map[string]string{"status": "accepted", "batch_id": b.BatchID, "caller": id.Hotkey})
}

func cmpErr(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	return err
}

func (c Candidate) check() error {
	if !folder.NameForm().MatchString(c.ArtifactID) {
		return errors.New("artifact_id: want a uuid")
	}
	if len(c.ContentHash) != 64 || strings.Trim(c.ContentHash, "0123456789abcdef") != "" {
		return errors.New("content_hash: want 64 lower-case hex digits")
	}
	if c.UID < 0 || c.SizeBytes < 0 {
		return errors.New("uid and size_bytes: want at least 0")
	}
	return nil
}

// Run plays what is queued until ctx ends.
func (v *Validator) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if v.step(ctx) {
			continue
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
		}
	}
}

// step plays the batch that waits longest; false when none waits.
func (v *Validator) step(ctx context.Context) bool {
	v.mu.Lock()
	if len(v.queue) == 0 {
		v.mu.Unlock()
		return false
	}
	id := v.queue[0]
	v.running = id
	v.last.batch, v.last.started, v.last.err = id, v.cfg.Now().UTC(), ""
	v.mu.Unlock()
	err := v.play(ctx, id)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running = ""
	switch {
	case ctx.Err() != nil: // it goes on with the next Run
	case err != nil:
		v.queue = v.queue[1:]
		v.last.err = "the batch could not be played"
		v.cfg.Log.Error("playing a batch", "batch", id, "err", err)
	default:
		v.queue = v.queue[1:]
		v.last.completed = v.cfg.Now().UTC()
	}
	return true
}

// play plays the pairs of a batch that have no result yet.
func (v *Validator) play(ctx context.Context, id string) error {
	var r record
	if ok, err := v.dir.Get("push-"+id, &r); err != nil || !ok {
		return fmt.Errorf("read batch %s: %w", id, cmpErr(err, "it is gone"))
	}
	done, err := v.results(id)
	if err != nil {
		return err
	}
	have := map[[2]string]bool{}
	for _, o := range done {
		have[[2]string{o.ArtifactID, o.ClaimID}] = true
	}
	for _, c := range r.Batch.Candidates {
		var script []byte
		var bad *Result
		fetched := false
		for i, claim := range r.Batch.Claims {
			if have[[2]string{c.ArtifactID, claim.ClaimID}] {
				continue
			}
			if !fetched {
				script, bad = v.stage(ctx, id, c)
				fetched = true
			}
			var res Result
			if bad != nil {
				res = *bad
			} else {
				res = v.pair(ctx, Pair{BatchID: id, Claim: claim, Candidate: c, Script: script})
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if res.ErrorCode != "" {
				res.Verdict, res.Justification, res.VerdictScore, res.SupportScore, res.SupportPass = -1, "execution failed", 0, 0, false
			}
			if res.Citations == nil {
				res.Citations = []Citation{}
			}
			o := outcome{uuid.NewSHA1(uuid.NameSpaceURL, []byte("agon-evaluation:"+id+":"+c.ArtifactID+":"+claim.ClaimID)).String(), c.UID, c.ArtifactID, claim.ClaimID, res}
			if err := v.dir.Put(resultName(id, c.ArtifactID, i), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// resultName is short enough for a file and unique to the pair.
func resultName(batch, artifact string, claim int) string {
	return fmt.Sprintf("result-%s-%s-%05d", batch, sha([]byte(artifact))[:16], claim)
}

// stage fetches a script and checks it. What is wrong with it is the failure
// of this candidate's pairs, never of the batch.
func (v *Validator) stage(ctx context.Context, batch string, c Candidate) ([]byte, *Result) {
	var b []byte
	var err error
	for try := 0; try < v.cfg.Attempts && ctx.Err() == nil; try++ {
		if b, err = v.cfg.Fetch(ctx, batch, c.ArtifactID); err == nil {
			break
		}
	}
	fail := func(msg string) ([]byte, *Result) {
		return nil, &Result{ErrorCode: CodeUnavailable, ErrorMessage: msg}
	}
	switch {
	case err != nil:
		v.cfg.Log.Error("fetching a script", "artifact", c.ArtifactID, "err", err)
		return fail("the script could not be fetched")
	case len(b) == 0 || len(b) > MaxScript:
		return fail(fmt.Sprintf("the script has %d bytes, want 1 to %d", len(b), MaxScript))
	case sha(b) != c.ContentHash:
		return fail("the script does not have its content_hash")
	}
	return b, nil
}

// pair plays one pair; what our side failed is tried again.
func (v *Validator) pair(ctx context.Context, p Pair) Result {
	var err error
	for p.Attempt = 1; p.Attempt <= v.cfg.Attempts && ctx.Err() == nil; p.Attempt++ {
		var r Result
		if r, err = v.cfg.Play(ctx, p); err == nil {
			return r
		}
		v.cfg.Log.Error("playing a pair", "artifact", p.Candidate.ArtifactID, "claim", p.Claim.ClaimID, "attempt", p.Attempt, "err", err)
	}
	return Result{ErrorCode: CodeStart, ErrorMessage: "the validator could not play this pair"}
}

// results reads what is stored of a batch.
func (v *Validator) results(id string) ([]outcome, error) {
	names, err := v.dir.Names("result-" + id + "-")
	if err != nil {
		return nil, err
	}
	out := make([]outcome, 0, len(names))
	for _, n := range names {
		var o outcome
		if ok, err := v.dir.Get(n, &o); err != nil {
			return nil, err
		} else if ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// progress is GET /validator/miner-task-batches/{id}/progress: the list stays
// empty until every pair has a result.
func (v *Validator) progress(w http.ResponseWriter, r *http.Request) {
	if _, _, ok := signed(w, r, v.cfg.Verifier, v.need(), 1<<10); !ok {
		return
	}
	u, err := uuid.Parse(r.PathValue("id"))
	var rec record
	ok := false
	if err == nil {
		if ok, err = v.dir.Get("push-"+u.String(), &rec); err != nil {
			reply(w, http.StatusInternalServerError, map[string]string{"detail": "internal error"})
			return
		}
	}
	if !ok {
		reply(w, http.StatusNotFound, map[string]string{"detail": "batch not found"})
		return
	}
	done, err := v.results(u.String())
	if err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"detail": "internal error"})
		return
	}
	n := total(rec.Batch)
	list := []any{}
	if len(done) >= n {
		for _, o := range done {
			list = append(list, v.element(u.String(), o))
		}
	}
	reply(w, http.StatusOK, map[string]any{"batch_id": u.String(), "total": n, "completed": len(done), "remaining": max(n-len(done), 0), "miner_task_results": list})
}

// element is a result in the seed's exact fields.
func (v *Validator) element(batch string, o outcome) map[string]any {
	score := map[string]any{
		"verdict_score": o.VerdictScore, "support_score": o.SupportScore, "justification_pass": o.SupportPass, "failed_citation_ids": []string{},
	}
	for k, s := range map[string]string{"grader_rationale": o.Rationale, "error_code": o.ErrorCode, "error_message": o.ErrorMessage} {
		if s != "" {
			score[k] = s
		}
	}
	u := o.Usage
	tokens := u.Prompt + u.Completion
	return map[string]any{
		"batch_id": batch, "validator": map[string]int{"uid": v.cfg.UID},
		"criterion_evaluation": map[string]any{
			"criterion_evaluation_id": o.EvaluationID, "uid": o.UID, "artifact_id": o.ArtifactID, "claim_id": o.ClaimID,
			"verdict": o.Verdict, "justification": o.Justification, "citations": o.Citations,
		},
		"score":   score,
		"usage":   map[string]any{"total_prompt_tokens": u.Prompt, "total_completion_tokens": u.Completion, "total_tokens": tokens, "call_count": u.LLMCalls, "by_provider": map[string]any{}},
		"session": o.Session,
		"total_tool_usage": map[string]any{
			"search_tool": map[string]any{"call_count": u.SearchCalls, "cost": u.SearchCost}, "search_tool_cost": u.SearchCost,
			"llm":      map[string]any{"call_count": u.LLMCalls, "prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": tokens, "cost": u.LLMCost, "providers": map[string]any{}},
			"llm_cost": u.LLMCost,
		},
	}
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

var _ json.Marshaler = Options(nil)
