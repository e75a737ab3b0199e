package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/query"
)

// What validators of the query era send back: first the answer of an attempt, then how
// it ended. Each is taken once; the same again is taken to be the same.

// Reasons of an acknowledgement.
const (
	reasonAgain    = "already_accepted"
	reasonStale    = "stale_attempt"
	reasonConflict = "conflicting_replay"
	reasonAttempt  = "invalid_attempt"
	reasonState    = "invalid_state"
)

type ack struct {
	BatchID    string  `json:"batch_id"`
	ArtifactID string  `json:"artifact_id"`
	TaskID     string  `json:"task_id"`
	Attempt    int     `json:"attempt_number"`
	Outcome    string  `json:"outcome"`
	Canonical  bool    `json:"canonical"`
	ReasonCode *string `json:"reason_code"`
	Reason     *string `json:"reason"`
}

func (i identity) accepted() ack {
	return ack{BatchID: i.BatchID, ArtifactID: i.ArtifactID, TaskID: i.TaskID, Attempt: i.Attempt, Outcome: "accepted", Canonical: true}
}

func (i identity) again() ack {
	a, code := i.accepted(), reasonAgain
	a.ReasonCode = &code
	return a
}

func (i identity) rejected(code, format string, args ...any) ack {
	a, text := i.accepted(), fmt.Sprintf(format, args...)
	a.Outcome, a.Canonical, a.ReasonCode, a.Reason = "rejected", false, &code, &text
	return a
}

// compactHash is the hash of a document that does not depend on its layout.
func compactHash(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return sha(raw)
	}
	return sha(b.Bytes())
}

// find is the cell of an attempt, or why there is none; the caller holds the lock.
func (p *Platform) find(hotkey string, i identity) (*board, *cell, *ack) {
	no := func(code, format string, args ...any) (*board, *cell, *ack) {
		a := i.rejected(code, format, args...)
		return nil, nil, &a
	}
	b := p.work.boards[i.BatchID]
	if b == nil {
		return no(reasonState, "no such batch is running")
	}
	c := b.cells[cellKey{hotkey, i.ArtifactID, i.TaskID}]
	switch {
	case c == nil:
		return no(reasonAttempt, "the batch has no such work for this validator")
	case b.refused(hotkey) != "" && c.State != cellRefused:
		return no(reasonState, "this validator's part of the batch does not count any more")
	case i.Attempt > c.Attempt || i.Attempt < 1:
		return no(reasonAttempt, "attempt %d has not been handed out", i.Attempt)
	}
	return b, c, nil
}

// execution is the part of an answer that we read; the rest goes back as it came.
type execution struct {
	identity
	Response *struct {
		Text   *string         `json:"text"`
		Output json.RawMessage `json:"output"`
	} `json:"response"`
	Session struct {
		ID string `json:"session_id"`
	} `json:"session"`
}

func (e execution) check() error {
	switch r := e.Response; {
	case e.identity.Session == nil || uuid.Validate(*e.identity.Session) != nil:
		return errors.New("validator_session_id: want a uuid")
	case r == nil:
		return errors.New("response: want an object")
	case (r.Text == nil) == (len(r.Output) == 0 || string(r.Output) == "null"):
		return errors.New("response: want exactly one of text and output")
	}
	return nil
}

// maxExecution bounds one answer with what belongs to it, in bytes.
const maxExecution = 8 << 20

// held is what answers of a validator take that wait to be compared, in bytes.
func (b *board) held(hotkey string) (n int) {
	for k, c := range b.cells {
		if k.validator == hotkey {
			n += len(c.Execution)
		}
	}
	return n
}

// workExecutions is POST /v2/miner-task-work/executions.
func (p *Platform) workExecutions(w http.ResponseWriter, r *http.Request) {
	var in struct {
		List []json.RawMessage `json:"executions"`
	}
	if hotkey, ok := p.worker(w, r, maxWork, &in); ok {
		acknowledge(p, w, hotkey, "executions", in.List, p.execute)
	}
}

// acknowledge takes a list of what a validator sends by take, in order, and answers each.
func acknowledge[T any](p *Platform, w http.ResponseWriter, hotkey, name string, list []json.RawMessage, take func(hotkey string, x T, raw json.RawMessage) (ack, error)) {
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	acks := []ack{}
	for n, raw := range list {
		var x T
		if json.Unmarshal(raw, &x) != nil || len(raw) > maxExecution {
			invalid(w, "value_error", "Input should be one of "+name, name, n)
			return
		}
		a, err := take(hotkey, x, raw)
		if err != nil {
			p.broken(w, "keep "+name, err)
			return
		}
		acks = append(acks, a)
	}
	reply(w, http.StatusOK, map[string]any{"server_time": p.now(), name: acks})
}

func (p *Platform) execute(hotkey string, e execution, raw json.RawMessage) (ack, error) {
	b, c, no := p.find(hotkey, e.identity)
	if no != nil {
		return *no, nil
	}
	hash := compactHash(raw)
	switch {
	case e.Attempt < c.Attempt:
		return e.rejected(reasonStale, "attempt %d is over, %d is under way", e.Attempt, c.Attempt), nil
	case c.Executed == hash:
		return e.again(), nil
	case c.Executed != "":
		return e.rejected(reasonConflict, "this attempt has another answer"), nil
	case c.State != cellAssigned && c.State != cellOpen:
		return e.rejected(reasonState, "this attempt is over"), nil
	}
	if err := e.check(); err != nil {
		return e.rejected(reasonAttempt, "%s", err), nil
	}
	if c.Session != "" && c.Session != *e.identity.Session {
		return e.rejected(reasonStale, "another session has this attempt"), nil
	}
	if b.held(hotkey)+len(raw) > p.cfg.Work.Held {
		return e.rejected(reasonState, "answers of this validator that wait to be compared take %d bytes at most", p.cfg.Work.Held), nil
	}
	p.close(b.batch.BatchID, c)
	c.State, c.Session, c.Execution, c.Executed = cellExecuted, *e.identity.Session, raw, hash
	return e.accepted(), p.keep(b, c)
}

// workScoreable is POST /v2/miner-task-work/scoreable-executions: answers that are
// compared by the validator that they are of.
func (p *Platform) workScoreable(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Limit  int64      `json:"limit"`
		Active []identity `json:"active_scoring"`
	}
	hotkey, ok := p.worker(w, r, 4<<20, &in)
	if !ok || !between(w, in.Limit, 1, maxScoreable, "limit") {
		return
	}
	has := map[[3]string]bool{}
	for _, a := range in.Active {
		has[[3]string{a.BatchID, a.ArtifactID, a.TaskID}] = true
	}
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	now := p.cfg.Now()
	out := []any{}
	for id, b := range p.work.boards {
		for _, k := range b.order {
			c := b.cells[k]
			switch {
			case k.validator != hotkey || c.State != cellExecuted:
			case has[[3]string{id, k.artifact, k.task}]:
				c.scored = now
			case int64(len(out)) >= in.Limit || now.Sub(c.scored) < p.cfg.Work.Forget:
			default:
				var item map[string]any
				if json.Unmarshal(c.Execution, &item) != nil {
					continue
				}
				c.scored = now
				item["artifact"], item["task"], item["max_attempts"] = b.of[k.artifact], b.tasks[k.task], c.Most
				out = append(out, item)
			}
		}
	}
	reply(w, http.StatusOK, map[string]any{"server_time": p.now(), "executions": out})
}

// ending is how an attempt ended, as a validator tells it.
type ending struct {
	identity
	Result   *endingResult `json:"result"`
	Terminal struct {
		Session   string  `json:"validator_session_id"`
		Attempt   int     `json:"attempt_number"`
		Status    string  `json:"status"`
		ErrorCode *string `json:"error_code"`
		Retry     string  `json:"retry_decision"`
		Effect    *string `json:"terminal_effect"`
		Most      int     `json:"max_attempts"`
	} `json:"terminal_attempt"`
}

// endingResult is the result of a task.
type endingResult struct {
	Score     float64 `json:"score"`
	Specifics struct {
		Breakdown *struct {
			Comparison float64 `json:"comparison_score"`
			Total      float64 `json:"total_score"`
			Version    string  `json:"scoring_version"`
			Reasoning  *struct {
				Text *string `json:"text"`
			} `json:"reasoning"`
		} `json:"score_breakdown"`
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		ElapsedMS *float64 `json:"elapsed_ms"`
	} `json:"specifics"`
}

// workResults is POST /v2/miner-task-work/results.
func (p *Platform) workResults(w http.ResponseWriter, r *http.Request) {
	var in struct {
		List []json.RawMessage `json:"results"`
	}
	if hotkey, ok := p.worker(w, r, maxWork, &in); ok {
		acknowledge(p, w, hotkey, "results", in.List, p.end)
	}
}

func (p *Platform) end(hotkey string, e ending, raw json.RawMessage) (ack, error) {
	hash := compactHash(raw)
	b, c, no := p.find(hotkey, e.identity)
	if no != nil {
		return *no, nil
	}
	switch was := c.Ended[e.Attempt]; {
	case was == hash:
		return e.again(), nil
	case was != "":
		return e.rejected(reasonConflict, "this attempt has ended otherwise"), nil
	case e.Attempt < c.Attempt:
		return e.rejected(reasonStale, "attempt %d is over, %d is under way", e.Attempt, c.Attempt), nil
	case c.State == cellDone || c.State == cellRefused:
		return e.rejected(reasonState, "this attempt is over"), nil
	case e.Terminal.Attempt != e.Attempt || uuid.Validate(e.Terminal.Session) != nil:
		return e.rejected(reasonAttempt, "terminal_attempt is of another attempt"), nil
	case c.Session != "" && c.Session != e.Terminal.Session:
		return e.rejected(reasonStale, "another session has this attempt"), nil
	}
	next := *c
	if err := next.take(e); err != nil {
		return e.rejected(reasonAttempt, "%s", err), nil
	}
	p.close(b.batch.BatchID, c)
	if next.Grade != nil {
		next.Execution = nil // the grade has what is kept of it
	}
	next.Ended = map[int]string{e.Attempt: hash}
	for k, v := range c.Ended {
		next.Ended[k] = v
	}
	*c = next
	if c.State == cellOpen {
		p.announce()
	}
	return e.accepted(), p.keep(b, c)
}

// take applies how an attempt ended.
func (c *cell) take(e ending) error {
	code := ""
	switch {
	case e.Result != nil && e.Result.Specifics.Error != nil:
		code = e.Result.Specifics.Error.Code
	case e.Terminal.ErrorCode != nil:
		code = *e.Terminal.ErrorCode
	}
	if code == "" {
		return c.graded(e)
	}
	// Whose failure it is, and what follows, is not the validator's to choose.
	blame, err := query.Failure(code, e.Attempt, c.Most, c.State != cellOpen || c.Session != "")
	if err != nil {
		return err
	}
	effect := ""
	if e.Terminal.Effect != nil {
		effect = *e.Terminal.Effect
	}
	switch {
	case effect == "" && e.Terminal.Retry == "will_retry":
		if e.Attempt >= c.Most {
			return errors.New("no attempt is left")
		}
		if blame.Retry != "will_retry" {
			return fmt.Errorf("%s is not tried again", code)
		}
		c.Attempt, c.State, c.Session, c.Execution, c.Executed, c.Spent = e.Attempt+1, cellOpen, "", nil, "", 0
	case effect == "delivery_failure", effect == "attempt_failure", blame.Disq:
		if effect == "attempt_failure" && e.Attempt != c.Most {
			return errors.New("attempt_failure is of the last attempt")
		}
		c.State, c.Code = cellRefused, code
	case effect == "task_result" && blame.Owner == "miner" && blame.Score != nil && e.Result != nil && e.Result.Score == 0:
		c.State, c.Grade = cellDone, c.grade(e, 0)
		c.Grade.ErrorCode, c.Grade.ErrorMessage = code, plain.Head(e.Result.message(), 500)
	default:
		return fmt.Errorf("%s does not end an attempt in this way", code)
	}
	return nil
}

func (r *endingResult) message() string {
	if r.Specifics.Error == nil {
		return ""
	}
	return r.Specifics.Error.Message
}

// graded applies a comparison that was made.
func (c *cell) graded(e ending) error {
	switch r := e.Result; {
	case c.State != cellExecuted:
		return errors.New("no answer of this attempt is here")
	case r == nil || r.Specifics.Breakdown == nil || e.Terminal.Effect == nil || *e.Terminal.Effect != "task_result" || e.Terminal.Status != "succeeded":
		return errors.New("want a result with its score_breakdown, or an error")
	case !(r.Score >= 0 && r.Score <= 1) || r.Specifics.Breakdown.Total != r.Score || r.Specifics.Breakdown.Comparison != r.Score:
		return errors.New("score: want the comparison's, from 0 to 1")
	}
	c.State, c.Grade = cellDone, c.grade(e, e.Result.Score)
	return nil
}

func (c *cell) grade(e ending, score float64) *grade {
	g := &grade{ArtifactID: c.Artifact, ClaimID: c.Task, VerdictScore: score, CostUSD: float64(c.Spent) / 1e6}
	s := e.Result.Specifics
	if ms := s.ElapsedMS; ms != nil && *ms >= 0 && !math.IsInf(*ms, 0) {
		g.ElapsedMS = ms
	}
	if s.Breakdown != nil && s.Breakdown.Reasoning != nil && s.Breakdown.Reasoning.Text != nil {
		g.Rationale = plain.Head(*s.Breakdown.Reasoning.Text, 4000)
	}
	var x struct {
		Response json.RawMessage `json:"response"`
	}
	if json.Unmarshal(c.Execution, &x) == nil {
		g.Answer = x.Response // the one that was sent for comparison, not one that came later
	}
	return g
}
