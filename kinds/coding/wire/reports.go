package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	judged "github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// report is the body of update-evaluation-run.
type report struct {
	Run       string          `json:"evaluation_run_id"`
	Status    string          `json:"updated_status"`
	Patch     *string         `json:"patch"`
	Tests     json.RawMessage `json:"test_results"`
	Reward    *float64        `json:"verifier_reward"`
	AgentLogs *string         `json:"agent_logs"`
	EvalLogs  *string         `json:"eval_logs"`
	Code      *int            `json:"error_code"`
	Message   *string         `json:"error_message"`
	Cost      *float64        `json:"cost_usd"`
}

// testResult is one test of a report.
type testResult struct {
	Name     string `json:"name"`
	Category string `json:"category"`
	Status   string `json:"status"`
}

var (
	categories   = []string{"default", "fail_to_pass", "pass_to_pass"}
	testStatuses = []string{"pass", "fail", "skip"}
)

const maxTests = 20_000

// parses checks what the original's model checks; it answers 422 itself.
func (in *report) parses(w http.ResponseWriter) bool {
	u, err := uuid.Parse(in.Run)
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "body", "evaluation_run_id")
		return false
	}
	in.Run = u.String()
	if !slices.Contains(statuses, in.Status) {
		invalid(w, "enum", "Input should be one of "+strings.Join(statuses, ", "), "body", "updated_status")
		return false
	}
	for name, v := range map[string]*float64{"verifier_reward": in.Reward, "cost_usd": in.Cost} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0) || math.Abs(*v) > 1e6) {
			invalid(w, "finite_number", "Input should be a finite number of at most 1000000", "body", name)
			return false
		}
	}
	if in.Cost != nil && *in.Cost < 0 {
		invalid(w, "greater_than_equal", "Input should be at least 0", "body", "cost_usd")
		return false
	}
	if string(in.Tests) == "null" {
		in.Tests = nil
	}
	if in.Tests != nil {
		var list []testResult
		if err := json.Unmarshal(in.Tests, &list); err != nil || len(list) > maxTests {
			invalid(w, "list_type", "Input should be a list of at most 20000 tests", "body", "test_results")
			return false
		}
		for i, t := range list {
			if t.Name == "" || !slices.Contains(categories, t.Category) || !slices.Contains(testStatuses, t.Status) {
				invalid(w, "value_error", "Input should be name, category and status of a test", "body", "test_results", i)
				return false
			}
		}
		in.Tests, _ = json.Marshal(list) // what else was in it is dropped; strings always encode
	}
	for _, p := range []*string{in.AgentLogs, in.EvalLogs} {
		if p != nil && len(*p) > 2*maxLog {
			*p = "<truncated>\n\n" + strings.ToValidUTF8((*p)[len(*p)-maxLog:], "")
		}
	}
	if in.Patch != nil && len(*in.Patch) > maxBody/4 {
		invalid(w, "string_too_long", "Input should have at most 4194304 bytes", "body", "patch")
		return false
	}
	if in.Message != nil {
		*in.Message = clip(*in.Message, 2000)
	}
	return true
}

// update is POST /validator/update-evaluation-run.
func (b *Backend) update(w http.ResponseWriter, r *http.Request) {
	s, done, ok := b.held(w, r)
	if !ok {
		return
	}
	defer done()
	var in report
	if !decode(w, r, maxBody, &in, "evaluation_run_id", "updated_status") || !in.parses(w) {
		return
	}
	b.alive(s, nil)
	d, found, err := b.run(in.Run)
	if err != nil {
		b.lost("read a run", err)
	}
	if !found {
		b.kill(w, r, s, http.StatusNotFound, "Evaluation run with ID %s does not exist.", in.Run)
		return
	}
	text, err := json.Marshal(in)
	if err != nil {
		b.lost("read a report", err)
	}
	hash := agon.Sum(text).Hex()
	e, ok := b.evaluation(d.Evaluation)
	if !ok {
		b.lost("read an evaluation", errors.New(d.Evaluation))
	}
	for _, x := range d.Said {
		if e.Hotkey == s.Hotkey && x.Hash == hash && (x.Attempt == d.Attempt || x.Attempt == d.Attempt-1 && d.Status == pending && in.Status == errored) {
			raw(w, http.StatusOK, x.Reply)
			return
		}
	}
	if s.Evaluation != d.Evaluation {
		switch {
		case e.Hotkey == s.Hotkey && e.Stopped:
			reply(w, http.StatusOK, map[string]any{"retry": false, "attempt_number": nil, "artifact_upload_url": nil})
		case s.Evaluation == "":
			b.kill(w, r, s, http.StatusConflict, "This validator is not currently running an evaluation, and therefore cannot update an evaluation run.")
		default:
			b.kill(w, r, s, http.StatusForbidden, "The evaluation run with ID %s is not associated with the validator's current evaluation.", in.Run)
		}
		return
	}
	if status, why := d.apply(&in, b.cfg.Now().UTC()); status != 0 {
		b.kill(w, r, s, status, "%s", why)
		return
	}
	out := map[string]any{"retry": false, "attempt_number": nil, "artifact_upload_url": nil}
	again := 0
	if d.Status == errored {
		if again = ridges.Grant(*d.Code, d.Attempt, e.Stopped, false); again > 0 {
			out["retry"], out["attempt_number"], out["artifact_upload_url"] = true, again, b.artifactURL(r, d.ID)
		}
	}
	if d.over() && again == 0 {
		if err := b.settle(r.Context(), s, d); err != nil {
			b.lost("report a result", err)
		}
	}
	answer, err := json.Marshal(out)
	if err != nil {
		b.lost("answer a report", err)
	}
	d.Said = append(slices.DeleteFunc(d.Said, func(x said) bool { return x.Attempt < d.Attempt }), said{d.Attempt, hash, answer})
	if again > 0 {
		d.again(again)
	}
	if err := b.dir.Put("run-"+d.ID, d); err != nil {
		b.lost("write a run", err)
	}
	if d.Status == initAgent || d.Status == runAgent {
		// What the platform shows of the run moves with it; the lease holds without.
		_, _ = b.cfg.Platform.Heartbeat(r.Context(), s.caller(), d.Lease, client.Heartbeat{Token: d.Token, State: agon.RunPlaying})
		_, _ = b.cfg.Platform.Extend(r.Context(), s.caller(), d.Lease, d.Token, hold)
	}
	if d.over() && e.Bar != nil && e.Whole && !e.Stopped {
		if err := b.bound(e); err != nil {
			b.cfg.Log.Error("bound an evaluation", "err", err)
		}
	}
	raw(w, http.StatusOK, answer)
}

// again begins the next attempt at a run.
func (d *runDoc) again(n int) {
	d.Attempt, d.Status, d.At = n, pending, map[string]time.Time{}
	d.Patch, d.Tests, d.Reward, d.Code, d.Message, d.AgentLog, d.EvalLog = nil, nil, nil, nil, nil, nil, nil
}

// apply moves a run as a report says, or says with which status it is refused.
func (d *runDoc) apply(in *report, now time.Time) (status int, why string) {
	i := slices.Index(statuses, in.Status)
	missing := func(what string) (int, string) {
		return http.StatusUnprocessableEntity, fmt.Sprintf("The %s required when updating an evaluation run to %s.", what, in.Status)
	}
	switch {
	case in.Status == pending:
		return http.StatusBadRequest, "An evaluation run can never be updated to pending."
	case i < 5 && d.Status != statuses[i-1]:
		return http.StatusBadRequest, fmt.Sprintf("An evaluation run can only be updated to %s from %s. The current status of evaluation run %s is %s.", in.Status, statuses[i-1], d.ID, d.Status)
	case i >= 5 && !slices.Contains(running, d.Status):
		return http.StatusBadRequest, fmt.Sprintf("An evaluation run that has ended cannot be updated to %s. The current status of evaluation run %s is %s.", in.Status, d.ID, d.Status)
	case in.Status == initEval && in.Patch == nil, in.Status == finished && in.Patch == nil && d.Patch == nil:
		return missing("patch is")
	case in.Status == initEval && in.AgentLogs == nil, in.Status == finished && in.AgentLogs == nil && d.AgentLog == nil:
		return missing("agent logs are")
	case in.Status == finished && in.Reward == nil:
		return missing("verifier reward is")
	case in.Status == finished && in.EvalLogs == nil:
		return missing("eval logs are")
	case in.Status == errored && in.Code == nil:
		return missing("error code is")
	case in.Status == errored && in.Message == nil:
		return missing("error message is")
	}
	d.Status = in.Status
	first := func(to **string, v *string) {
		if *to == nil && v != nil {
			*to = v
		}
	}
	switch in.Status {
	case initEval:
		d.Patch, d.AgentLog = in.Patch, in.AgentLogs
	case finished:
		for _, s := range running[1:] {
			if d.At[s].IsZero() {
				d.At[s] = now
			}
		}
		first(&d.Patch, in.Patch)
		d.Reward, d.Tests, d.Cost = in.Reward, in.Tests, in.Cost
	case errored:
		d.Code, d.Message, d.Cost = in.Code, in.Message, in.Cost
	}
	if d.over() {
		first(&d.AgentLog, in.AgentLogs)
		first(&d.EvalLog, in.EvalLogs)
		d.At["ended"] = now
	} else {
		d.At[in.Status] = now
	}
	return 0, ""
}

// settle tells the platform how a run ended. It may be repeated.
func (b *Backend) settle(ctx context.Context, s *session, d *runDoc) error {
	res := client.Result{Token: d.Token, Driver: agon.Driver{Name: "docker"}, Outcome: agon.OutcomeOK}
	if d.Cost != nil {
		res.Cost = agon.Micros(math.Round(*d.Cost * 1e6))
	}
	if at := d.At[runAgent]; !at.IsZero() {
		res.BoxMS = max(d.At["ended"].Sub(at).Milliseconds(), 0)
	}
	score := agon.Score{Run: d.Run, Task: d.Task.Key, Scorer: "ridges-validator"}
	switch {
	case d.Status == finished:
		score.Metrics = map[string]float64{"reward": *d.Reward}
		if score.Solved = *d.Reward >= 1; score.Solved {
			score.Value = 1
		}
		res.Scores = []agon.Score{score}
	case *d.Code == codePruned:
		res.Outcome, score.Detail = "pruned", "not played to its end: the agent can no longer reach the bar of this stage"
		score.Metrics = map[string]float64{judged.MetricUnplayed: 1}
		res.Scores = []agon.Score{score}
	case *d.Code >= 1000 && *d.Code < 2000:
		res.Fault, res.Outcome, res.Reason = agon.FaultAgent, outcomeOf(*d.Code), clip(*d.Message, 500)
	default:
		res.Fault, res.Outcome, res.Reason = agon.FaultValidator, fmt.Sprintf("error %d", *d.Code), clip(*d.Message, 500)
	}
	_, err := b.cfg.Platform.Result(ctx, s.caller(), d.Lease, res)
	var e *agon.Error
	if errors.As(err, &e) && e.Code == "result_conflict" {
		return nil // we ended between the platform's answer and our note of it: it has this report, with another time
	}
	if errors.As(err, &e) && e.Status < 500 {
		b.cfg.Log.Warn("a result is not taken", "lease", d.Lease, "err", err) // saying it again would not help
		return nil
	}
	return err
}

// outcomeOf names what an agent's code says.
func outcomeOf(code int) string {
	switch code {
	case 1020:
		return "timeout"
	case 1030:
		return "eval_timeout"
	case 1040:
		return "bad_patch"
	}
	return "raised"
}

// bound stops an evaluation that can no longer reach its bar.
func (b *Backend) bound(e *evaluation) error {
	runs, err := b.runsOf(e)
	if err != nil {
		return err
	}
	lost := 0
	for _, d := range runs {
		if d.Status == finished && *d.Reward < 1 || d.Status == errored && *d.Code >= 1000 && *d.Code < 2000 {
			lost++
		}
	}
	if ridges.Bound(len(runs), lost) >= *e.Bar {
		return nil
	}
	e.Stopped = true
	return b.dir.Put("eval-"+e.ID, e)
}
