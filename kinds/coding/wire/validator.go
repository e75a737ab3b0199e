package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// hold is how long a lease lives without a sign of life of its session, which is
// ended long before: it bounds what is lost if this process never comes back.
const hold = 20 * time.Minute

// most bounds the runs of one evaluation.
const most = 200

// evaluation is the work that one session was given at once: the runs of one agent
// at one stage.
type evaluation struct {
	ID       string    `json:"evaluation_id"`
	Agent    string    `json:"agent_id"`
	Hotkey   string    `json:"validator_hotkey"`
	Set      int       `json:"set_id"`
	Group    string    `json:"evaluation_set_group"`
	Created  time.Time `json:"created_at"`
	Finished time.Time `json:"finished_at,omitzero"`
	Runs     []string  `json:"runs"`
	Whole    bool      `json:"whole"`             // it has all tasks of its stage
	Bar      *float64  `json:"bar,omitempty"`     // that it must be able to reach
	Stopped  bool      `json:"stopped"`           // it cannot reach its bar
	Extended time.Time `json:"extended,omitzero"` // when its leases were last prolonged
}

func (e *evaluation) public() map[string]any {
	return map[string]any{
		"evaluation_id": e.ID, "agent_id": e.Agent, "validator_hotkey": e.Hotkey, "set_id": e.Set, "evaluation_set_group": e.Group,
		"created_at": stamp(e.Created), "finished_at": stamp(e.Finished),
	}
}

// Statuses of a run, in their order.
const (
	pending   = "pending"
	initAgent = "initializing_agent"
	runAgent  = "running_agent"
	initEval  = "initializing_eval"
	runEval   = "running_eval"
	finished  = "finished"
	errored   = "error"
)

var statuses = []string{pending, initAgent, runAgent, initEval, runEval, finished, errored}

// running are the statuses from which a run may end.
var running = statuses[:5]

// codePruned and codeLost are codes of ours: stopped by its bar, and the first of
// five by status when the session was lost.
const (
	codePruned = 3060
	codeLost   = 3000
)

// runDoc is a lease of a run, and what was reported of it.
type runDoc struct {
	ID         string               `json:"evaluation_run_id"`
	Evaluation string               `json:"evaluation_id"`
	Lease      string               `json:"lease"`
	Token      string               `json:"token"` // the folder is its owner's alone
	Run        string               `json:"run"`
	Task       agon.TaskRef         `json:"task"`
	Digest     string               `json:"task_digest"`
	Spec       json.RawMessage      `json:"execution_spec"`
	Name       string               `json:"problem_name"`
	Family     string               `json:"benchmark_family"`
	Status     string               `json:"status"`
	Patch      *string              `json:"patch,omitempty"`
	Tests      json.RawMessage      `json:"test_results,omitempty"`
	Reward     *float64             `json:"verifier_reward,omitempty"`
	Code       *int                 `json:"error_code,omitempty"`
	Message    *string              `json:"error_message,omitempty"`
	Cost       *float64             `json:"cost_usd,omitempty"`
	Created    time.Time            `json:"created_at"`
	At         map[string]time.Time `json:"at"`
	AgentLog   *string              `json:"agent_log,omitempty"`
	EvalLog    *string              `json:"eval_log,omitempty"`
	Attempt    int                  `json:"attempt"`
	Said       []said               `json:"said"`
}

// said is a report and its answer: the same report again gets the same answer.
type said struct {
	Attempt int             `json:"attempt"`
	Hash    string          `json:"hash"`
	Reply   json.RawMessage `json:"reply"`
}

func (d *runDoc) over() bool { return d.Status == finished || d.Status == errored }

func (b *Backend) evaluation(id string) (*evaluation, bool) {
	if id == "" {
		return nil, false
	}
	e := &evaluation{}
	ok, err := b.dir.Get("eval-"+id, e)
	if err != nil {
		b.cfg.Log.Error("read an evaluation", "err", err)
	}
	return e, ok && err == nil
}

func (b *Backend) run(id string) (*runDoc, bool, error) {
	d := &runDoc{}
	ok, err := b.dir.Get("run-"+id, d)
	return d, ok, err
}

// runsOf reads the runs of an evaluation.
func (b *Backend) runsOf(e *evaluation) ([]*runDoc, error) {
	out := make([]*runDoc, 0, len(e.Runs))
	for _, id := range e.Runs {
		d, ok, err := b.run(id)
		if err != nil || !ok {
			return nil, fmt.Errorf("read run %s: %w", id, errors.Join(err, errors.New("it is gone")))
		}
		out = append(out, d)
	}
	return out, nil
}

// kill answers a refusal and ends the session, as this protocol does for what its handlers refuse.
func (b *Backend) kill(w http.ResponseWriter, r *http.Request, s *session, status int, format string, args ...any) {
	b.dropHeld(r.Context(), s, fmt.Sprintf("it was answered %d: "+format, append([]any{status}, args...)...), false)
	refuse(w, status, format, args...)
}

// lost ends the connection where we failed: clients try a broken connection again,
// and leave for good when they are answered 500.
func (b *Backend) lost(what string, err error) {
	b.cfg.Log.Error("request failed", "what", what, "err", err)
	panic(http.ErrAbortHandler)
}

// stages are the stages that a session may play; ok is false where there are none for it.
func stages(a *client.Arena, s *session) (list []string, ok bool) {
	if len(a.Stages) == 0 {
		return nil, s.Screener == ""
	}
	for _, st := range a.Stages {
		screening := strings.HasPrefix(st.Name, "screener_")
		if s.Screener != "" && st.Name == "screener_"+s.Screener || s.Screener == "" && !screening {
			list = append(list, st.Name)
		}
	}
	return list, len(list) > 0
}

// requestEvaluation is POST /validator/request-evaluation.
func (b *Backend) requestEvaluation(w http.ResponseWriter, r *http.Request) {
	s, done, ok := b.held(w, r)
	if !ok {
		return
	}
	defer done()
	var in struct{}
	if !decode(w, r, maxSmall, &in) {
		return
	}
	if s.Evaluation != "" {
		b.kill(w, r, s, http.StatusConflict, "This validator is already running an evaluation, and validators may only run one evaluation at a time.")
		return
	}
	b.alive(s, nil)
	b.mu.Lock()
	stop := b.flags.Paused || slices.Contains(b.flags.Black, s.Hotkey)
	b.mu.Unlock()
	var out any
	if !stop {
		var err error
		if out, err = b.assign(r, s); err != nil {
			b.cfg.Log.Error("assign an evaluation", "validator", s.Hotkey, "err", err)
			out = nil // it asks again in a minute
		}
	}
	reply(w, http.StatusOK, out)
}

// assign leases the runs of the next agent.
func (b *Backend) assign(r *http.Request, s *session) (any, error) {
	ctx := r.Context()
	a, err := b.cfg.Platform.FullArena(ctx, b.cfg.Arena)
	if err != nil {
		return nil, err
	}
	names, ok := stages(a, s)
	if !ok || a.Evidence != agon.EvidenceForeign || a.State == agon.ArenaClosed {
		return nil, nil
	}
	terms := platform.Terms{Hold: hold, NoDuels: true, Stages: names}
	if s.Screener != "" {
		terms.Staff, terms.Peers = true, platform.StaffName+"screener-"+s.Screener+"-"
	}
	who := s.caller()
	var leases []*client.Lease
	give := func(why error) {
		for _, l := range leases {
			_, err := b.cfg.Platform.Result(context.WithoutCancel(ctx), who, l.ID, client.Result{Token: l.Token, Fault: agon.FaultValidator, Outcome: client.OutcomeGivenBack, Reason: clip(why.Error(), 300)})
			if err != nil {
				b.cfg.Log.Error("a lease is not given back", "lease", l.ID, "err", err)
			}
		}
	}
	for len(leases) < most {
		l, err := b.cfg.Platform.ClaimFor(ctx, who, client.ClaimRequest{Arenas: []string{b.cfg.Arena}, Kinds: []string{a.Kind}, Driver: "docker"}, terms)
		if err != nil {
			give(err)
			return nil, err
		}
		if l == nil {
			break
		}
		leases = append(leases, l)
		terms.Submission, terms.Stages = l.Submission.ID, nil
		if l.Run.Stage != "" {
			terms.Stages = []string{l.Run.Stage}
		}
		if l.Run.Half() {
			break
		}
	}
	if len(leases) == 0 {
		return nil, nil
	}
	out, err := b.begin(r, s, a, leases)
	if err != nil {
		give(err)
	}
	return out, err
}

// begin writes an evaluation down before it is told.
func (b *Backend) begin(r *http.Request, s *session, a *client.Arena, leases []*client.Lease) (any, error) {
	ctx := r.Context()
	sub := leases[0].Submission
	files, err := b.cfg.Platform.SubmissionFiles(ctx, operator, sub.ID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(files, func(f client.File) bool { return f.Path == agentFile })
	if i < 0 {
		return nil, fmt.Errorf("submission %s has no %s", sub.ID, agentFile)
	}
	set, err := b.latest(ctx)
	if err != nil {
		return nil, err
	}
	now := b.cfg.Now().UTC()
	e := &evaluation{ID: uuid.NewString(), Agent: b.agentID(sub.ID), Hotkey: s.Hotkey, Set: set.ID, Group: s.group(), Created: now, Extended: now}
	entry, err := b.cfg.Platform.Submission(ctx, operator, sub.ID)
	if err != nil {
		return nil, err
	}
	// A submission that is decided is played to its end: no bar stops a canary.
	if st, ok := a.Stage(leases[0].Run.Stage); ok && entry.State != agon.SubmissionScored {
		e.Whole = len(leases) == len(st.Tasks)
		last := st.Name == a.Stages[len(a.Stages)-1].Name
		switch {
		case !last && max(st.Evaluations, 1) == 1:
			e.Bar = &st.Threshold
		case last && st.Consensus && a.Champion != nil && a.Champion.Submission != sub.ID:
			e.Bar = &a.Champion.Score
		}
	}
	config, err := b.providerConfig(e.Agent)
	if err != nil {
		return nil, err
	}
	runs, urls := []any{}, map[string]string{}
	for _, l := range leases {
		t := l.Run.Tasks[0]
		arc, err := b.tasks.of(ctx, b.cfg.Tree, t)
		if err != nil {
			return nil, err
		}
		family, _, _ := strings.Cut(t.Key, "/")
		name := strings.ReplaceAll(t.Key, "/", "__")
		spec, err := json.Marshal(map[string]any{
			"kind": "harbor_remote_task", "dataset_name": a.ID, "task_name": name, "s3_key": "tasks/" + arc.digest + ".tar.gz", "task_digest": arc.digest,
			"agent_timeout_sec": float64(l.Run.Policy.Agent.WallMS) / 1000, "benchmark_family": family, "problem_suite_name": family,
		})
		if err != nil {
			return nil, err
		}
		d := &runDoc{
			ID: uuid.NewString(), Evaluation: e.ID, Lease: l.ID, Token: l.Token, Run: l.Run.Run, Task: t, Digest: arc.digest, Spec: spec, Name: name, Family: family,
			Status: pending, Created: now, At: map[string]time.Time{}, Attempt: 1,
		}
		if err := b.dir.Put("run-"+d.ID, d); err != nil {
			return nil, err
		}
		e.Runs = append(e.Runs, d.ID)
		runs = append(runs, map[string]any{"evaluation_run_id": d.ID, "problem_name": name, "problem_suite_name": family, "benchmark_family": family, "execution_spec": json.RawMessage(spec)})
		urls[d.ID] = b.artifactURL(r, d.ID)
	}
	if err := b.dir.Put("eval-"+e.ID, e); err != nil {
		return nil, err
	}
	b.noteEvaluation(e)
	b.works(s, e.ID)
	if err := b.dir.Put("session-"+s.ID, s); err != nil {
		b.works(s, "")
		return nil, err
	}
	b.books.stale()
	return map[string]any{
		"evaluation_id": e.ID, "agent_id": e.Agent, "agent_code": string(files[i].Content), "evaluation_runs": runs, "artifact_upload_urls": urls, "openrouter_config": config,
	}, nil
}

// providerConfig is what a validator is told of the miner's keys; nil: there are none.
func (b *Backend) providerConfig(agent string) (any, error) {
	var d agentDoc
	ok, err := b.dir.Get("agent-"+agent, &d)
	if err != nil || !ok || d.Keys == nil || b.cfg.Keys == nil {
		return nil, err
	}
	api, err := b.cfg.Keys.Sealer.Open(d.Keys.API)
	if err != nil {
		return nil, err
	}
	manage, err := b.cfg.Keys.Sealer.Open(d.Keys.Manage)
	if err != nil {
		return nil, err
	}
	return map[string]any{"api_key": api, "management_key": manage, "workspace_id": d.Keys.Workspace, "expected_api_key_sha256": agon.Sum([]byte(api)).Hex()}, nil
}

// prolong keeps the leases of a session's evaluation while it sends heartbeats.
func (b *Backend) prolong(ctx context.Context, s *session) {
	if !s.lock.TryLock() { // a report is under way: the next heartbeat will do
		return
	}
	defer s.lock.Unlock()
	e, ok := b.evaluation(s.Evaluation)
	if !ok || b.cfg.Now().Sub(e.Extended) < hold/2 {
		return
	}
	runs, err := b.runsOf(e)
	if err != nil {
		b.cfg.Log.Error("prolong leases", "err", err)
		return
	}
	for _, d := range runs {
		if d.over() {
			continue
		}
		if _, err := b.cfg.Platform.Extend(ctx, s.caller(), d.Lease, d.Token, hold); err != nil {
			b.cfg.Log.Error("prolong a lease", "lease", d.Lease, "err", err)
		}
	}
	e.Extended = b.cfg.Now().UTC()
	if err := b.dir.Put("eval-"+e.ID, e); err != nil {
		b.cfg.Log.Error("prolong leases", "err", err)
	}
}

const prunedMessage = "The platform stopped this run because the agent can no longer reach the bar of its stage"

// which reads evaluation_id and agent_id, and checks that they are the session's. ok is false when it has answered.
func (b *Backend) which(w http.ResponseWriter, r *http.Request, s *session, reason *string) (*evaluation, bool) {
	var in struct {
		Evaluation string  `json:"evaluation_id"`
		Agent      string  `json:"agent_id"`
		Reason     *string `json:"reason"`
	}
	if !decode(w, r, maxSmall, &in, "evaluation_id", "agent_id") {
		return nil, false
	}
	for name, v := range map[string]*string{"evaluation_id": &in.Evaluation, "agent_id": &in.Agent} {
		u, err := uuid.Parse(*v)
		if err != nil {
			invalid(w, "uuid_parsing", "Input should be a valid UUID", "body", name)
			return nil, false
		}
		*v = u.String()
	}
	if in.Reason != nil && reason != nil {
		*reason = clip(*in.Reason, 500)
	}
	e, ok := b.evaluation(s.Evaluation)
	switch {
	case !ok:
		refuse(w, http.StatusConflict, "This validator is not currently running an evaluation.")
	case e.ID != in.Evaluation || e.Agent != in.Agent:
		refuse(w, http.StatusConflict, "The requested evaluation_id and agent_id do not match this validator's current evaluation.")
	default:
		return e, true
	}
	return nil, false
}

// checkCancellation is POST /validator/check-cancellation.
func (b *Backend) checkCancellation(w http.ResponseWriter, r *http.Request) {
	s, done, ok := b.held(w, r)
	if !ok {
		return
	}
	defer done()
	e, ok := b.which(w, r, s, nil)
	if !ok {
		return
	}
	out := map[string]any{"should_cancel": e.Stopped, "reason": nil}
	if e.Stopped {
		out["reason"] = prunedMessage
	}
	reply(w, http.StatusOK, out)
}

// cancel is POST /validator/cancel-current-evaluation.
func (b *Backend) cancel(w http.ResponseWriter, r *http.Request) {
	s, done, ok := b.held(w, r)
	if !ok {
		return
	}
	defer done()
	reason := prunedMessage
	e, ok := b.which(w, r, s, &reason)
	if !ok {
		return
	}
	if !e.Stopped {
		refuse(w, http.StatusConflict, "This agent has not been stopped by the platform.")
		return
	}
	if err := b.end(r.Context(), s, e, func(*runDoc) int { return codePruned }, reason); err != nil {
		b.lost("cancel an evaluation", err)
	}
	reply(w, http.StatusOK, struct{}{})
}

// finish is POST /validator/finish-evaluation.
func (b *Backend) finish(w http.ResponseWriter, r *http.Request) {
	s, done, ok := b.held(w, r)
	if !ok {
		return
	}
	defer done()
	var in struct{}
	if !decode(w, r, maxSmall, &in) {
		return
	}
	e, ok := b.evaluation(s.Evaluation)
	if !ok {
		b.kill(w, r, s, http.StatusConflict, "This validator is not currently running an evaluation, and therefore cannot request to finish an evaluation.")
		return
	}
	b.alive(s, nil)
	runs, err := b.runsOf(e)
	if err != nil {
		b.lost("finish an evaluation", err)
	}
	if slices.ContainsFunc(runs, func(d *runDoc) bool { return !d.over() }) {
		b.kill(w, r, s, http.StatusConflict, "Not all evaluation runs associated with the evaluation that this validator is currently running have either finished or errored.")
		return
	}
	if err := b.end(r.Context(), s, e, nil, ""); err != nil {
		b.lost("finish an evaluation", err)
	}
	reply(w, http.StatusOK, struct{}{})
}

// end closes the evaluation of a session: runs that have not ended get a code.
func (b *Backend) end(ctx context.Context, s *session, e *evaluation, code func(*runDoc) int, why string) error {
	runs, err := b.runsOf(e)
	if err != nil {
		return err
	}
	now := b.cfg.Now().UTC()
	for _, d := range runs {
		if d.over() {
			continue
		}
		n := code(d)
		d.Status, d.Code, d.Message, d.At["ended"] = errored, &n, &why, now
		if err := b.settle(ctx, s, d); err != nil {
			return err
		}
		if err := b.dir.Put("run-"+d.ID, d); err != nil {
			return err
		}
	}
	e.Finished = now
	if err := b.dir.Put("eval-"+e.ID, e); err != nil {
		return err
	}
	b.works(s, "")
	b.books.stale()
	b.mu.Lock()
	gone := s.gone
	b.mu.Unlock()
	if gone {
		return nil
	}
	return b.dir.Put("session-"+s.ID, s)
}

// abandon gives the unreported runs of a session that is lost to others.
func (b *Backend) abandon(ctx context.Context, s *session, why string, given bool) {
	e, ok := b.evaluation(s.Evaluation)
	if !ok {
		return
	}
	runs, err := b.runsOf(e)
	if err != nil {
		b.cfg.Log.Error("abandon an evaluation", "err", err)
		return
	}
	for _, d := range runs {
		if d.over() || !given {
			continue
		}
		_, err := b.cfg.Platform.Result(ctx, s.caller(), d.Lease, client.Result{Token: d.Token, Fault: agon.FaultValidator, Outcome: client.OutcomeGivenBack, Reason: clip(why, 300)})
		if err != nil {
			b.cfg.Log.Error("a lease is not given back", "lease", d.Lease, "err", err)
		}
	}
	err = b.end(ctx, s, e, func(d *runDoc) int { return codeLost + 10*slices.Index(statuses, d.Status) }, "The session of the validator ended: "+why)
	if err != nil {
		b.cfg.Log.Error("abandon an evaluation", "err", err)
	}
}
