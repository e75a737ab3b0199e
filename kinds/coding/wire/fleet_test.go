package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

// A fleet of two screeners and three validators plays forty agents. One validator is
// killed in the middle of an evaluation, and one lies: it says that a bad agent of its
// own solves everything. The best agent leads, and every run is accounted for.
func TestFleet(t *testing.T) {
	w := newWorld(t)
	const agents, best, friend = 40, 27, 5
	// able is how many of the tasks of a stage an agent solves.
	able := func(n, of int) int {
		switch {
		case n == best:
			return of
		case n == friend:
			return of / 2
		case n%2 == 0:
			return 0 // ends at the first screener
		}
		return of * (2 + n%2) / 4
	}
	ids := make([]string, agents)
	number := map[string]int{}
	for n := range ids {
		ids[n] = w.enter("ab"[n%2], fmt.Sprintf("agent %02d", n))
		number[ids[n]] = n
	}
	session := map[byte]string{}
	for _, k := range []byte("12vwx") {
		session[k] = w.join(k)
	}
	evaluations, killed := 0, false
	// turn lets one of the fleet play one evaluation; false: there was none for it.
	turn := func(k byte) bool {
		j := w.ask(session[k])
		if j == nil {
			return false
		}
		evaluations++
		n, ok := number[j.Agent]
		if !ok {
			t.Fatalf("an agent that nobody entered: %s", j.Agent)
		}
		solves := able(n, len(j.Runs))
		if k == 'x' && n == friend {
			solves = len(j.Runs) // the lie
		}
		for i, r := range j.Runs {
			if k == 'w' && !killed && i == 2 {
				killed = true // kill -9: the others hear nothing more of it
				w.skip(61 * time.Second)
				for o, s := range session {
					if o != 'w' {
						code, out, text := w.post("/validator/heartbeat", s, `{"system_metrics":{}}`)
						w.want(200, code, out, text)
					}
				}
				w.b.Sweep(bg)
				session['w'] = w.join('w')
				return true
			}
			reward := 0.0
			if i < solves {
				reward = 1
			}
			code, out, text := w.tell(session[k], r.ID, finished, ended(reward))
			w.want(200, code, out, text)
			code, out, text = w.post("/validator/check-cancellation", session[k], map[string]any{"evaluation_id": j.Evaluation, "agent_id": j.Agent})
			if w.want(200, code, out, text); out["should_cancel"] == true {
				code, out, text = w.post("/validator/cancel-current-evaluation", session[k], map[string]any{"evaluation_id": j.Evaluation, "agent_id": j.Agent})
				w.want(200, code, out, text)
				return true
			}
		}
		code, out, text := w.post("/validator/finish-evaluation", session[k], "{}")
		w.want(200, code, out, text)
		return true
	}
	for busy := true; busy; {
		busy = false
		for _, k := range []byte("12vwx") {
			busy = turn(k) || busy
		}
		if evaluations > 10*agents {
			t.Fatal("the fleet does not come to an end")
		}
	}
	if !killed {
		t.Error("nobody was killed")
	}
	ends := map[string]int{}
	for n, id := range ids {
		got := w.status(id)
		ends[got]++
		if want := "failed_screening_1"; n%2 == 0 && got != want {
			t.Errorf("agent %d is %s, want %s", n, got, want)
		}
	}
	if ends["screening_1"]+ends["screening_2"]+ends["evaluating"] > 0 || ends["finished"] == 0 {
		t.Errorf("not all have ended: %v", ends)
	}
	// By this rule several earn: the best is approved and leads the board.
	_, out, text := w.get("/retrieval/agent-by-id?agent_id=" + ids[best])
	if out["status"] != "finished" || out["final_score"] != 1.0 || out["validator_count"] != 3.0 || out["approved"] != true {
		t.Errorf("the best: %s", text)
	}
	_, _, text = w.get("/evaluation-sets/7/leaderboard")
	var board []struct {
		ID string `json:"agent_id"`
	}
	if must(t, json.Unmarshal([]byte(text), &board)); len(board) == 0 || board[0].ID != ids[best] {
		t.Errorf("the board begins with %.300s", text)
	}
	if _, out, text := w.get("/retrieval/agent-by-id?agent_id=" + ids[friend]); out["final_score"] != nil && out["final_score"].(float64) > .5 {
		t.Errorf("the lie counts: %s", text)
	}
	for _, state := range []agon.RunState{agon.RunQueued, agon.RunLeased, agon.RunPlaying, agon.RunJudging} {
		page, err := w.api.Runs(bg, operator, "ridges", "", string(state), "", 200)
		must(t, err)
		if len(page.Items) > 0 {
			t.Errorf("%d runs are %s at the end, such as %+v", len(page.Items), state, page.Items[0].RunSpec)
		}
	}
	if code, out, text := w.get("/scoring/weights"); code != 200 || len(out) == 0 || strings.Contains(text, "null") {
		t.Errorf("%d %s", code, text)
	}
}
