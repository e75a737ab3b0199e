package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/coding/play"
)

const judgeKey = "the key of judges"

// vetted is a world whose arena asks judges; one stage and validator are enough.
func vetted(t *testing.T, what string) *world {
	return newWorld(t, func(c *Config, a *agon.Arena) {
		c.JudgeKey = judgeKey
		a.Options = map[string]string{play.OptionVetting: what}
		a.Stages = []agon.Stage{{Name: "validator", Tasks: []string{"v/4", "v/5"}, Evaluations: 1}}
	})
}

// claim takes a job of judge by; nil: there is none.
func (w *world) claim(kind, by string) map[string]any {
	w.t.Helper()
	code, out, text := w.post("/judge/"+kind+"/claim", judgeKey, map[string]any{"claimed_by": by, "lease_seconds": 60})
	return w.want(200, code, out, text)
}

func (w *world) answer(kind string, job, more map[string]any) (int, map[string]any, string) {
	w.t.Helper()
	m := map[string]any{"claim_token": job["claim_token"], "confidence": .9, "summary": "looked at"}
	for k, v := range more {
		m[k] = v
	}
	return w.post("/judge/"+kind+"/"+job["job_id"].(string)+"/result", judgeKey, m)
}

// Before an agent is played a judge looks at it: by a lease that another gets once it
// has run out, over a kill of ours; its verdict becomes the agent's status.
func TestPreScreening(t *testing.T) {
	const jobs = "pre-screening-jobs"
	w := vetted(t, "entries")
	good, bad, odd := w.enter('a', "good"), w.enter('b', "bad"), ""
	v := w.join('v')
	if j := w.ask(v); j != nil || w.status(good) != "pre_screening" {
		t.Fatalf("%+v is played before a judge has seen it, %s", j, w.status(good))
	}
	if code, _, text := w.get("/retrieval/queue?stage=pre_screening"); code != 200 || strings.Count(text, `"status":"pre_screening"`) < 2 {
		t.Errorf("%d %s", code, text)
	}
	if code, _, text := w.post("/judge/"+jobs+"/claim", adminKey, map[string]any{"claimed_by": "x"}); code != 401 {
		t.Errorf("the operator's key: %d %s", code, text)
	}
	first := w.claim(jobs, "judge one")
	if src, _ := first["source"].(map[string]any); first["agent_id"] != good || first["status"] != "running" || first["attempt_count"] != 1.0 || src["content"] != string(agentSource("good")) {
		t.Fatalf("%+v", first)
	}
	other := w.claim(jobs, "judge two")
	if other["agent_id"] != bad || w.claim(jobs, "judge three") != nil {
		t.Fatalf("%+v", other)
	}
	w.skip(61 * time.Second)
	w.open() // kill -9
	again := w.claim(jobs, "judge three")
	if again["job_id"] != first["job_id"] || again["attempt_count"] != 2.0 || again["claim_token"] == first["claim_token"] {
		t.Fatalf("%+v", again)
	}
	if code, _, text := w.answer(jobs, first, map[string]any{"verdict": "fail"}); code != 409 {
		t.Errorf("one whose lease went to another: %d %s", code, text)
	}
	for _, wrong := range []map[string]any{{"verdict": "approved"}, {"verdict": "pass", "confidence": 2}, {"verdict": 1}, {}} {
		if code, _, text := w.answer(jobs, again, wrong); code != 422 && code != 400 {
			t.Errorf("%v: %d %s", wrong, code, text)
		}
	}
	code, out, text := w.answer(jobs, again, map[string]any{"verdict": "pass", "categories": []string{}, "evidence": []any{}})
	if w.want(200, code, out, text); out["status"] != "succeeded" || w.status(good) != "evaluating" {
		t.Errorf("%s, %s", text, w.status(good))
	}
	if code, out, text = w.answer(jobs, again, map[string]any{"verdict": "fail"}); code != 200 || out["status"] != "succeeded" {
		t.Errorf("what was answered stays: %d %s", code, text)
	}
	// Its lease has run out, but nobody else has taken it.
	code, out, text = w.answer(jobs, other, map[string]any{"verdict": "fail", "summary": "a table of answers"})
	if w.want(200, code, out, text); out["status"] != "failed" || w.status(bad) != "failed_pre_screening" {
		t.Errorf("%s, %s", text, w.status(bad))
	}
	w.play(v, 1, 1)
	if w.ask(v) != nil || w.status(good) != "finished" {
		t.Error("what a judge has failed is played, or what it passed is not")
	}

	// A try that came to nothing is made again later; what a judge is unsure of the operator settles.
	w.skip(25 * time.Hour)
	odd = w.enter('a', "odd")
	j := w.claim(jobs, "judge one")
	code, out, text = w.answer(jobs, j, map[string]any{"error": "the model does not answer"})
	if w.want(200, code, out, text); out["status"] != "error" || w.claim(jobs, "judge one") != nil {
		t.Errorf("%s", text)
	}
	w.skip(11 * time.Second)
	j = w.claim(jobs, "judge one")
	code, out, text = w.answer(jobs, j, map[string]any{"verdict": "needs_review"})
	if w.want(200, code, out, text); w.status(odd) != "pre_screening_needs_review" || w.claim(jobs, "judge one") != nil {
		t.Errorf("%s, %s", text, w.status(odd))
	}
	if code, _, text := w.send("GET", "/admin/"+jobs+"?status=needs_review", adminKey, "", nil); code != 200 || !strings.Contains(text, odd) || strings.Contains(text, "claim_token") {
		t.Errorf("%d %s", code, text)
	}
	review := map[string]any{"decision": "approved", "reason": "it is a loop, not a table", "reviewer_id": "ann"}
	code, out, text = w.post("/admin/"+jobs+"/"+j["job_id"].(string)+"/review", adminKey, review)
	if w.want(200, code, out, text); out["status"] != "succeeded" || out["reviewer_id"] != "ann" {
		t.Error(text)
	}
	if code, _, text := w.post("/admin/"+jobs+"/"+j["job_id"].(string)+"/review", adminKey, review); code != 409 {
		t.Errorf("%d %s", code, text)
	}
	w.play(v, 0, 0)
}

// A result that would sit waits for a judge, who holds up nobody: what reaches the bar
// no more when the judge has answered takes no seat.
func TestApproval(t *testing.T) {
	const jobs = "approval-jobs"
	w := vetted(t, "seats")
	v := w.join('v')
	state := func(agent string) string {
		code, out, text := w.get("/retrieval/agent-by-id?agent_id=" + agent)
		w.want(200, code, out, text)
		s, _ := out["competition_state"].(map[string]any)
		return fmt.Sprint(out["status"], " ", s["status"], " ", s["approval_review_status"])
	}
	slow, fast := w.enter('a', "slow"), w.enter('b', "fast")
	w.play(v, 1, 0)
	w.play(v, 1, 1)
	if got := state(slow); got != "finished under_review pending" {
		t.Errorf("%s", got)
	}
	j, k := w.claim(jobs, "judge one"), w.claim(jobs, "judge two")
	ask, _ := j["input_snapshot"].(map[string]any)
	about, _ := ask["evaluation_context"].(map[string]any)
	if j["agent_id"] != slow || k["agent_id"] != fast || about["final_validator_score"] != .5 || about["validator_count"] != 1.0 {
		t.Fatalf("%+v, %+v", j, k)
	}
	yes := map[string]any{"verdict": "approved", "approval_score": .8, "rounds": []any{map[string]any{"model": "m", "verdict": "approved"}}}
	code, out, text := w.answer(jobs, k, yes) // the later one first
	if w.want(200, code, out, text); state(fast) != "finished baseline approved" {
		t.Error(state(fast))
	}
	code, out, text = w.answer(jobs, j, yes)
	if w.want(200, code, out, text); state(slow) != "finished rejected rejected" {
		t.Errorf("it reaches the bar no more: %s", state(slow))
	}
	w.skip(25 * time.Hour)
	w.enter('a', "none")
	w.play(v, 0, 0)
	if w.claim(jobs, "judge one") != nil {
		t.Error("a judge is asked of what would not sit")
	}
	code, out, text = w.get("/scoring/weights")
	if w.want(200, code, out, text); out[w.keys['b'].SS58()] != 1.0 {
		t.Error(text)
	}
}

// A judge's no keeps an agent out of the seat that its score would have given it.
func TestApprovalRefused(t *testing.T) {
	w := vetted(t, "both")
	agent := w.enter('a', "good")
	v := w.join('v')
	code, out, text := w.answer("pre-screening-jobs", w.claim("pre-screening-jobs", "j"), map[string]any{"verdict": "pass"})
	w.want(200, code, out, text)
	w.play(v, 1, 1)
	j := w.claim("approval-jobs", "j")
	before, _ := j["input_snapshot"].(map[string]any)["evaluation_context"].(map[string]any)["pre_screening"].(map[string]any)
	if before["verdict"] != "pass" || before["resolution"] != "auto" {
		t.Errorf("%v", j)
	}
	code, out, text = w.answer("approval-jobs", j, map[string]any{"verdict": "rejected", "approval_score": .1, "summary": "a table of answers"})
	if w.want(200, code, out, text); out["status"] != "completed" {
		t.Error(text)
	}
	code, out, text = w.get("/retrieval/agent-by-id?agent_id=" + agent)
	if w.want(200, code, out, text); out["approved"] != false || out["approval_review_status"] != "rejected" || out["final_score"] != 1.0 {
		t.Error(text)
	}
	code, out, text = w.get("/scoring/weights")
	if w.want(200, code, out, text); out[w.keys['o'].SS58()] != 1.0 {
		t.Errorf("what nobody earns is the owner's: %s", text)
	}
}
