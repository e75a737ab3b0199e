package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/sandbox"
)

// AgentFile is the only file of a submission.
const AgentFile = "agent.py"

// Places inside a box.
const (
	agentDir  = "/agon"
	toolsDoor = "127.0.0.1:8100"
	port      = 8000
)

const (
	defaultTimeout = 120 * time.Second
	readyWait      = 60 * time.Second
	// grace is what an answer may take beyond the script's own time: the
	// runner's grace before it kills, and the way back.
	grace      = 3 * time.Second
	sessionTTL = 5 * time.Minute
	// maxSandboxReply bounds an answer of the runner as it is read.
	maxSandboxReply = MaxReply + 64<<10
)

// Play calls the script once for every claim of the run, in one warm box as
// long as that lives, with a tool session of its own each time.
func (k *Kind) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	if len(r.Tasks) == 0 {
		return agon.Record{}, errors.New("claim: a run has at least one task")
	}
	claims := make([]Claim, len(r.Tasks))
	for i, t := range r.Tasks {
		tk, err := env.Task(ctx, t)
		if err != nil {
			return agon.Record{}, err
		}
		if claims[i], _, err = LoadTask(tk); err != nil {
			return agon.Record{}, err
		}
	}
	dir, err := env.Tree(ctx, s.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	timeout := defaultTimeout
	if ms := r.Policy.Agent.WallMS; ms > 0 {
		timeout = time.Duration(ms) * time.Millisecond
	}
	p := &player{rootfs: k.cfg.Rootfs, env: env, run: r, dir: dir, uid: k.cfg.UID(s), timeout: timeout}
	jobs := make([]job, len(claims))
	for i, c := range claims {
		jobs[i] = job{
			key: r.Tasks[i].Key, id: c.ClaimID, entry: Entrypoint, payload: c.Payload, context: map[string]string{"claim_id": c.ClaimID},
			tools: tools.SessionConfig{Budget: c.Budget},
			check: func(out *Pair, raw json.RawMessage, s *tools.Session) { checkClaim(out, raw, c, s) },
		}
	}
	return p.play(ctx, jobs)
}

// job is one task as a script is called with it.
type job struct {
	key, id string // of the task
	entry   string // the entrypoint that is called
	payload any
	context map[string]string
	tools   tools.SessionConfig // budget and form of the tool session
	// check reads the return value and completes the pair; the session is closed then.
	check func(out *Pair, raw json.RawMessage, s *tools.Session)
}

// play calls the script once for each job and makes the run's record.
func (p *player) play(ctx context.Context, jobs []job) (agon.Record, error) {
	defer p.stop()
	rec := agon.Record{Outcome: agon.OutcomeOK, Tasks: map[string]string{}}
	pairs := make([]Pair, len(jobs))
	dead := 0
	var err error
	for i, j := range jobs {
		p.left = len(jobs) - i
		if pairs[i], err = p.pair(ctx, j); err != nil {
			return agon.Record{}, err
		}
		rec.Tasks[j.key] = pairs[i].Outcome
		if pairs[i].Outcome == OutcomeBox {
			dead++
		}
	}
	if dead == len(pairs) {
		// Not one claim was answered or even failed by itself: whose fault the
		// box's end was is for the engine to say, from what it saw.
		rec.Outcome, rec.Detail = OutcomeBox, pairs[0].detail()
	}
	b, err := EncodePairs(pairs)
	if err != nil {
		return agon.Record{}, err
	}
	rec.Files = map[string][]byte{PairsFile: b}
	return rec, nil
}

// player is one Play under way. One goroutine uses it.
type player struct {
	rootfs  string
	env     kind.Env
	run     agon.RunSpec
	dir     string // the submission's tree
	uid     int
	timeout time.Duration // of one call
	left    int           // claims that are not played yet
	box     *warmBox      // nil: none is running
}

// pair plays one task. An error is never the script's.
func (p *player) pair(ctx context.Context, j job) (Pair, error) {
	out := Pair{Task: j.key, ClaimID: j.id}
	j.tools.UID, j.tools.TTL = p.uid, max(sessionTTL, p.timeout+time.Minute)
	s, err := p.env.Tools(ctx, j.key, j.tools)
	if err != nil {
		return out, err
	}
	defer s.Close(tools.StatusError) // of a session that was not closed below
	if p.box == nil {
		if p.box, err = p.start(ctx, s.URL); err != nil && ctx.Err() == nil && !errors.Is(err, sandbox.ErrHost) {
			p.box, err = p.start(ctx, s.URL) // nothing of the script ran in it: it was only slow, or unlucky
		}
		if err != nil {
			return out, err
		}
	}
	body, err := json.Marshal(map[string]any{"payload": j.payload, "context": j.context})
	if err != nil {
		return out, fmt.Errorf("encode payload of %s: %w", j.key, err)
	}
	p.box.tasks.Store(s.ID(), j.key)
	began := time.Now() //nolint:forbidigo // for the miner's eyes only; nothing is decided by it
	status, reply, err := p.box.call(ctx, j.entry, p.timeout+grace, body, s.Session)
	out.ElapsedMS = time.Since(began).Milliseconds()
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	var raw json.RawMessage
	if err == nil {
		raw = readReply(&out, status, reply)
	} else {
		outcome, e := p.box.died(ctx, err)
		out.fail(outcome, e)
		p.stop()
	}
	// Calls still under way are cut off here: what can be cited stands.
	switch {
	case raw != nil:
		s.Close(tools.StatusCompleted)
		j.check(&out, raw, s.Session)
	case out.Outcome == agon.OutcomeTimeout:
		s.Close(tools.StatusTimedOut)
	default:
		s.Close(tools.StatusError)
	}
	tool, spent := digests(s.Receipts())
	out.Tools = tool
	out.Session = PairSession{
		ID: s.ID(), Status: s.Status(), IssuedAt: s.IssuedAt(), ExpiresAt: s.ExpiresAt(), Budget: j.tools.Budget, Spent: spent, Calls: len(tool),
	}
	return out, nil
}

// checkClaim reads the return value against the contract and hydrates it.
func checkClaim(out *Pair, raw json.RawMessage, c Claim, s *tools.Session) {
	r, err := ParseResponse(raw, &c.Payload)
	if err != nil {
		out.fail(agon.OutcomeInvalid, PairError{Status: http.StatusOK, Message: err.Error()})
		return
	}
	h := HydrateSeed(r.Citations, s.ID(), receiptsOf(s.Receipts()))
	out.Outcome = agon.OutcomeOK
	out.Response = &PairReply{Verdict: r.Verdict, Justification: r.Justification, Citations: h, Dropped: len(r.Citations) - len(h)}
}

// readReply understands an answer of the sandbox protocol. It returns the
// script's result, or sets why there is none. What the answer says is the
// script's word or the runner's; no word of it blames anybody but the script.
func readReply(out *Pair, status int, body []byte) json.RawMessage {
	if len(body) >= maxSandboxReply {
		out.fail(OutcomeTooLarge, PairError{Status: status, Message: fmt.Sprintf("the result is longer than %d bytes", MaxReply)})
		return nil
	}
	f, err := object(body)
	if err != nil {
		out.fail(OutcomeDied, PairError{Status: status, Message: "the sandbox's answer is not a JSON object"})
		return nil
	}
	if status == http.StatusOK {
		if raw, ok := f["result"]; ok {
			return raw
		}
		return body // an answer without the key is the result itself
	}
	e := PairError{Status: status}
	var d struct {
		Code      string `json:"code"`
		Exception string `json:"exception"`
		Error     string `json:"error"`
	}
	if json.Unmarshal(f["detail"], &d) == nil {
		e.Code, e.Exception, e.Message = d.Code, d.Exception, d.Error
	}
	outcome := agon.OutcomeRaised
	switch {
	case status == http.StatusGatewayTimeout:
		outcome = agon.OutcomeTimeout
	case status == http.StatusNotFound:
		outcome = agon.OutcomeNoEntry
	case d.Code == "PreloadFailed":
		outcome = agon.OutcomeLoadError
	case d.Code == "ResultTooLarge":
		outcome = OutcomeTooLarge
	case d.Code == "":
		outcome = OutcomeDied
	}
	out.fail(outcome, e)
	return nil
}

// start makes a box for the claims that are left.
func (p *player) start(ctx context.Context, toolsURL string) (*warmBox, error) {
	return startWarm(ctx, warmConfig{
		rootfs: p.rootfs, dir: p.dir, tools: toolsURL, limits: p.run.Policy.Agent, timeout: p.timeout,
		// The policy's wall time is one call's; the box lives for all that are left.
		wall: (p.timeout+grace+2*time.Second)*time.Duration(p.left) + readyWait + 30*time.Second,
		env:  []string{fmt.Sprintf("CASTER_MINER_UID=%d", p.uid), "CASTER_EVALUATION_RUN_ID=" + p.run.Run},
		open: p.env.Box,
		output: func(task string, l outputLine) {
			p.env.Progress(agon.EventOutput, task, map[string]any{"stream": l.Stream, "text": strings.ToValidUTF8(l.Message, "\ufffd"), "truncated": l.Dropped > 0})
		},
	})
}

// stop ends the box, if one runs.
func (p *player) stop() {
	if p.box != nil {
		p.box.close()
		p.box = nil
	}
}
