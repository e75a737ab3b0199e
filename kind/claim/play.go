package claim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/tools"
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
	p := &player{k: k, env: env, run: r, dir: dir, uid: k.cfg.UID(s), timeout: timeout, left: len(claims)}
	defer p.stop()
	rec := agon.Record{Outcome: OutcomeOK, Tasks: map[string]string{}}
	pairs := make([]Pair, len(claims))
	dead := 0
	for i, c := range claims {
		p.left = len(claims) - i
		if pairs[i], err = p.pair(ctx, r.Tasks[i].Key, c); err != nil {
			return agon.Record{}, err
		}
		rec.Tasks[r.Tasks[i].Key] = pairs[i].Outcome
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
	k       *Kind
	env     kind.Env
	run     agon.RunSpec
	dir     string // the submission's tree
	uid     int
	timeout time.Duration // of one call
	left    int           // claims that are not played yet
	box     *warmBox      // nil: none is running
}

// pair plays one claim. An error is never the script's.
func (p *player) pair(ctx context.Context, key string, c Claim) (Pair, error) {
	out := Pair{Task: key, ClaimID: c.ClaimID}
	ttl := max(sessionTTL, p.timeout+time.Minute)
	s, err := p.env.Tools(ctx, key, tools.SessionConfig{UID: p.uid, Budget: c.Budget, TTL: ttl})
	if err != nil {
		return out, err
	}
	defer s.Close(tools.StatusError) // of a session that was not closed below
	if p.box == nil {
		if p.box, err = p.start(ctx, s.URL); err != nil {
			return out, err
		}
	}
	body, err := json.Marshal(map[string]any{"payload": c.Payload, "context": map[string]string{"claim_id": c.ClaimID}})
	if err != nil {
		return out, fmt.Errorf("encode payload of %s: %w", key, err)
	}
	p.box.tasks.Store(s.ID(), key)
	began := time.Now() // for the miner's eyes only; nothing is decided by it
	status, reply, err := p.box.call(ctx, p.timeout+grace, body, s.Session)
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
		p.check(&out, raw, c, s.Session)
	case out.Outcome == OutcomeTimeout:
		s.Close(tools.StatusTimedOut)
	default:
		s.Close(tools.StatusError)
	}
	tool, spent := digests(s.Receipts())
	out.Tools = tool
	out.Session = PairSession{
		ID: s.ID(), Status: s.Status(), IssuedAt: s.IssuedAt(), ExpiresAt: s.ExpiresAt(), Budget: c.Budget, Spent: spent, Calls: len(tool),
	}
	return out, nil
}

// check reads the return value against the contract and hydrates it.
func (p *player) check(out *Pair, raw json.RawMessage, c Claim, s *tools.Session) {
	r, err := ParseResponse(raw, &c.Payload)
	if err != nil {
		out.fail(OutcomeInvalid, PairError{Status: http.StatusOK, Message: err.Error()})
		return
	}
	h := HydrateSeed(r.Citations, s.ID(), receiptsOf(s.Receipts()))
	out.Outcome = OutcomeOK
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
		out.fail(OutcomeDied, PairError{Status: status, Message: "the sandbox's answer is no JSON object"})
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
	outcome := OutcomeRaised
	switch {
	case status == http.StatusGatewayTimeout:
		outcome = OutcomeTimeout
	case status == http.StatusNotFound:
		outcome = OutcomeMissing
	case d.Code == "PreloadFailed":
		outcome = OutcomeLoad
	case d.Code == "ResultTooLarge":
		outcome = OutcomeTooLarge
	case d.Code == "":
		outcome = OutcomeDied
	}
	out.fail(outcome, e)
	return nil
}

// warmBox is a box in which the runner serves one submission.
type warmBox struct {
	box    sandbox.Box
	client *http.Client
	stdin  *io.PipeWriter
	cancel context.CancelFunc
	ended  chan struct{} // closed when the runner has ended
	exit   sandbox.Exit  // valid after ended
	err    error         // valid after ended
	tasks  sync.Map      // session id → task, for the log, which may lag behind the answers
}

// start makes a box and waits until the runner in it listens. The script is
// not touched before the first call.
func (p *player) start(ctx context.Context, toolsURL string) (*warmBox, error) {
	args, err := runnerArgs()
	if err != nil {
		return nil, err
	}
	l := p.run.Policy.Agent
	memory := l.MemoryBytes
	if memory == 0 {
		memory = sandbox.DefaultLimits.MemoryBytes
	}
	// The policy's wall time is one call's; the box lives for all that are left.
	l.WallMS = (p.timeout+grace+2*time.Second).Milliseconds()*int64(p.left) + (readyWait + 30*time.Second).Milliseconds()
	box, err := p.env.Box(ctx, sandbox.Spec{
		Name:   "script",
		Rootfs: p.k.cfg.Rootfs,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: 64 << 20},
			{Kind: sandbox.MountReadOnly, Source: p.dir, Target: agentDir},
		},
		Doors:  []sandbox.Door{{Listen: toolsDoor, Target: toolsURL}},
		Limits: l,
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "HOME=/tmp",
			"CASTER_AGENT_PATH=" + agentDir + "/" + AgentFile, "SANDBOX_HOST=127.0.0.1", fmt.Sprintf("SANDBOX_PORT=%d", port),
			fmt.Sprintf("ENTRYPOINT_TIMEOUT_SECONDS=%g", p.timeout.Seconds()),
			fmt.Sprintf("CASTER_MINER_UID=%d", p.uid), "CASTER_EVALUATION_RUN_ID=" + p.run.Run,
			// A script that fills its memory ends by itself, before the box does.
			fmt.Sprintf("AGON_WORKER_MEMORY=%d", memory/4*3), "AGON_WATCH_STDIN=1",
		},
	})
	if err != nil {
		return nil, err
	}
	inR, inW := io.Pipe()
	execCtx, cancel := context.WithCancel(ctx)
	w := &warmBox{box: box, stdin: inW, cancel: cancel, ended: make(chan struct{})}
	w.client = &http.Client{Transport: &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return box.Dial(ctx, port) },
		MaxIdleConns:    1,
		MaxConnsPerHost: 2,
	}}
	ready := make(chan struct{})
	say := sync.OnceFunc(func() { close(ready) })
	lines := &lineWriter{max: 256 << 10, line: func(b []byte) { p.line(w, b, say) }}
	go func() {
		defer close(w.ended)
		w.exit, w.err = box.Exec(execCtx, sandbox.Cmd{
			Args: args, Dir: "/tmp", Stdin: inR, Stdout: lines, Stderr: io.Discard, Untrusted: true,
			Wall: time.Duration(l.WallMS) * time.Millisecond,
		})
		_ = inR.Close()
	}()
	t := time.NewTimer(readyWait)
	defer t.Stop()
	select {
	case <-ready:
		return w, nil
	case <-w.ended:
		if w.err != nil {
			w.close()
			return nil, fmt.Errorf("run the sandbox: %w", w.err)
		}
		w.close()
		return nil, fmt.Errorf("the sandbox ended with status %d before it served", w.exit.Code)
	case <-t.C:
		w.close()
		return nil, fmt.Errorf("the sandbox did not serve within %s", readyWait)
	case <-ctx.Done():
		w.close()
		return nil, ctx.Err()
	}
}

// line reads one line of the runner's log.
func (p *player) line(w *warmBox, b []byte, ready func()) {
	var l struct {
		Type    string `json:"type"`
		Session string `json:"session_id"`
		Stream  string `json:"stream"`
		Message string `json:"message"`
		Dropped int64  `json:"dropped"`
	}
	if json.Unmarshal(b, &l) != nil {
		return
	}
	switch l.Type {
	case "ready":
		ready()
	case "output":
		v, _ := w.tasks.Load(l.Session)
		task, _ := v.(string)
		p.env.Progress(agon.EventOutput, task, map[string]any{"stream": l.Stream, "text": strings.ToValidUTF8(l.Message, "\ufffd"), "truncated": l.Dropped > 0})
	}
}

// call makes one call of the sandbox protocol. An error means that no answer came.
func (w *warmBox) call(ctx context.Context, within time.Duration, body []byte, s *tools.Session) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/entry/"+Entrypoint, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range map[string]string{
		tools.HeaderToken: s.Token(), tools.HeaderSession: s.ID(), "X-Caster-Host-Container-Url": "http://" + toolsDoor,
		tools.HeaderToken2: s.Token(), tools.HeaderSession2: s.ID(), "X-Host-Container-Url": "http://" + toolsDoor,
	} {
		req.Header.Set(k, v)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSandboxReply))
	return resp.StatusCode, b, err
}

// died says what to call the end of a call that got no answer.
func (w *warmBox) died(ctx context.Context, err error) (string, PairError) {
	t := time.NewTimer(time.Second) // an exit that is on its way tells more than a broken connection
	defer t.Stop()
	select {
	case <-w.ended:
		if w.exit.Limit != "" {
			return OutcomeBox, PairError{Message: w.exit.Limit + " limit of the box reached"}
		}
		return OutcomeBox, PairError{Message: fmt.Sprintf("the sandbox ended with status %d", w.exit.Code)}
	case <-t.C:
	case <-ctx.Done():
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return OutcomeTimeout, PairError{Exception: "TimeoutError", Message: "no answer in time"}
	}
	return OutcomeBox, PairError{Message: "the connection to the sandbox broke"}
}

// stop ends the box, if one runs.
func (p *player) stop() {
	if p.box != nil {
		p.box.close()
		p.box = nil
	}
}

// close asks the runner to end, then ends the box. The runner leaves when its
// input does, so that its exit is its own and not a loss.
func (w *warmBox) close() {
	_ = w.stdin.Close()
	w.client.CloseIdleConnections()
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
	}
	w.cancel()
	_ = w.box.Close()
	<-w.ended
}

// lineWriter hands on whole lines of at most max bytes; longer ones are dropped.
type lineWriter struct {
	max  int
	line func([]byte)
	buf  []byte
	skip bool
}

func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		adv, tok, _ := bufio.ScanLines(b, false)
		if adv == 0 {
			if l.skip = l.skip || len(l.buf)+len(b) > l.max; l.skip {
				l.buf = l.buf[:0]
			} else {
				l.buf = append(l.buf, b...)
			}
			break
		}
		if !l.skip && len(l.buf)+len(tok) <= l.max {
			l.line(append(l.buf, tok...))
		}
		l.buf, l.skip, b = l.buf[:0], false, b[adv:]
	}
	return n, nil
}
