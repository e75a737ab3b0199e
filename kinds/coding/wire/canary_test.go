package wire

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// An evaluation of a canary comes to validators of this protocol like any other: all
// tasks of the stage, by the same fields. No bar stops it, so that an honest validator plays
// it to its end; who says something else than is known is named.
func TestCanaryEvaluation(t *testing.T) {
	w := newWorld(t)
	session := map[byte]string{}
	for _, k := range []byte("12vwx") {
		session[k] = w.join(k)
	}
	screened := func(k byte, word string) string {
		id := w.enter(k, word)
		w.play(session['1'], 1, 1)
		w.play(session['2'], 1, 1)
		return id
	}
	weak := screened('a', "weak")
	for _, k := range []byte("vwx") {
		w.play(session[k], 1, 0, 0, 0)
	}
	screened('b', "best")
	for _, k := range []byte("vwx") {
		w.play(session[k], 1, 1, 1, 1)
	}
	stopped := func(k byte, j *job, r int, reward float64) bool {
		w.walk(session[k], j.Runs[r].ID, reward)
		code, out, text := w.post("/validator/check-cancellation", session[k], map[string]any{"evaluation_id": j.Evaluation, "agent_id": j.Agent})
		return w.want(200, code, out, text)["should_cancel"] == true
	}
	pruned := screened('a', "pruned")
	for _, k := range []byte("vwx") {
		j := w.ask(session[k])
		if !stopped(k, j, 0, 0) {
			t.Fatal("an agent that cannot lead any more goes on")
		}
		code, out, text := w.post("/validator/cancel-current-evaluation", session[k], map[string]any{"evaluation_id": j.Evaluation, "agent_id": j.Agent})
		w.want(200, code, out, text)
	}
	err := w.canary(pruned)
	if e := (*agon.Error)(nil); !errors.As(err, &e) || e.Code != "not_final" {
		t.Errorf("a canary of what nobody played to its end: %v", err)
	}
	for range 4 {
		must(t, w.canary(weak))
		for _, k := range []byte("vwx") {
			rewards := []float64{1, 0, 0, 0}
			if k == 'x' {
				rewards[2] = 1
			}
			j := w.ask(session[k])
			if j == nil && k == 'x' {
				continue // it is believed no more
			}
			if j == nil || j.Agent != weak || len(j.Runs) != 4 {
				t.Fatalf("the canary came as %+v", j)
			}
			for i := range j.Runs {
				if stopped(k, j, i, rewards[i]) {
					t.Fatal("a canary is stopped")
				}
			}
			code, out, text := w.post("/validator/finish-evaluation", session[k], "{}")
			w.want(200, code, out, text)
		}
		w.dropQueued()
	}
	standings, err := w.api.ValidatorStandings(bg)
	must(t, err)
	for _, s := range standings.Validators {
		if liar := s.Hotkey == w.keys['x'].SS58(); s.Named != liar || !liar && s.Missed > 0 {
			t.Errorf("%+v", s)
		}
	}
	if _, out, text := w.get("/retrieval/agent-by-id?agent_id=" + weak); out["final_score"] != 0.25 || out["validator_count"] != 3.0 {
		t.Errorf("canaries moved the agent: %s", text)
	}
}

// canary lays one of the last stage of an agent.
func (w *world) canary(agent string) error {
	w.t.Helper()
	runs, err := w.api.Runs(bg, operator, "ridges", w.b.submissionOf(agent), "scored", "", 50)
	must(w.t, err)
	for _, r := range runs.Items {
		if r.Stage == "validator" && !r.Aside {
			_, err = w.api.MakeCanary(bg, operator, r.RunSpec.Run, client.CanaryRequest{Validators: 3, Reason: "to see"})
			return err
		}
	}
	w.t.Fatalf("agent %s has no run of the last stage", agent)
	return nil
}

// dropQueued ends what nobody is left to play.
func (w *world) dropQueued() {
	w.t.Helper()
	runs, err := w.api.Runs(bg, operator, "ridges", "", "queued", "", 50)
	must(w.t, err)
	for _, r := range runs.Items {
		must(w.t, w.api.CancelRun(bg, operator, r.RunSpec.Run, "nobody is left"))
	}
}
