package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
)

// lending is a world whose validators get tokens of a real gateway.
func lending(t *testing.T) (*world, *gateway.Gateway) {
	t.Helper()
	w := newWorld(t)
	a, err := w.api.FullArena(bg, "demo-shopping")
	if err != nil {
		t.Fatal(err)
	}
	a.Policy.Models, a.Policy.Budget = []string{"m"}, agon.Budget{Micros: 1_000_000, Calls: 3, Tokens: 100_000}
	if err := w.api.EnsureArena(bg, a.Arena); err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, gateway.Config{}, gatewaytest.Says(gatewaytest.Answer))
	w.cfg.Gateway = func(context.Context) (Gateway, error) { return g, nil }
	if w.h, err = New(w.cfg); err != nil {
		t.Fatal(err)
	}
	return w, g
}

// ask calls a model as ORO's proxy does with the validator's token.
func (w *world) ask(token, body string) (int, string) {
	w.t.Helper()
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(gateway.TokenHeader, strings.Repeat("0", 64)) // a session of its own choice
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

const question = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":1}`

// A claim brings a token that pays models within the lease: its calls are metered,
// recorded, and stand in the result with the gateway's statement. It ends with the run.
func TestLentToken(t *testing.T) {
	w, _ := lending(t)
	w.submit('a', "a", goodAgent)
	run, problems := w.play('v', 2)
	token := text(t, run, "chutes_access_token")
	if m, _ := run["inference_token"].(map[string]any); m["access_token"] != token || m["base_url"] != "http://arena/v1" || m["provider"] != "chutes" {
		t.Errorf("inference_token %v", run["inference_token"])
	}
	base := "/v1/validator/evaluation-runs/" + text(t, run, "eval_run_id")
	if code, body := w.ask(token, question); code != 200 || !strings.Contains(body, "choices") {
		t.Fatalf("a call: %d %s", code, body)
	}
	w.must('v', "POST", base+"/heartbeat", "", 200, "")
	if code, body := w.ask(token, strings.Replace(question, `"m"`, `"other"`, 1)); code == 200 || !strings.Contains(body, "other") {
		t.Errorf("a model that the arena does not list: %d %s", code, body)
	}
	for _, bad := range []string{"", "x", token[:len(token)-1], token + "0", strings.ToUpper(token), "../" + token, strings.Split(token, ".")[0] + "."} {
		if code, body := w.ask(bad, question); code != http.StatusUnauthorized || !strings.Contains(body, "Invalid token.") {
			t.Errorf("token %q: %d %s", bad, code, body)
		}
	}
	for range 4 { // the budget of calls ends, whoever asks
		w.ask(token, question)
	}
	if code, _ := w.ask(token, question); code == 200 {
		t.Error("the budget of three calls does not end")
	}
	w.must('v', "POST", base+"/complete", `{"terminal_status":"SUCCESS","validator_score":1,"score_components":{"reasoning_coefficient":1}}`, 200, "")
	if code, _ := w.ask(token, question); code != http.StatusUnauthorized {
		t.Errorf("the token lives on: %d", code)
	}
	if len(problems) != 2 {
		t.Fatalf("%d problems", len(problems))
	}
	// What was called is on record, in the gateway's words.
	page, err := w.api.Runs(bg, platform.Caller{Operator: true}, "demo-shopping", "", "scored", "", 10)
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d runs, %v", len(page.Items), err)
	}
	got, err := w.api.Run(bg, platform.Caller{Operator: true}, page.Items[0].Run.Run)
	if err != nil {
		t.Fatal(err)
	}
	at := got.List[len(got.List)-1]
	receipts, err := w.api.Receipts(bg, platform.Caller{Operator: true}, at.Run, at.N)
	if err != nil || len(receipts) != 3 || at.Statement == nil || at.Statement.Calls != 3 || at.CostMicros == 0 || at.CostMicros != at.Statement.Cost {
		t.Errorf("receipts %d, statement %+v, cost %d, %v", len(receipts), at.Statement, at.CostMicros, err)
	}
	events, err := w.api.Events(bg, platform.Caller{Operator: true}, at.Run, 0, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, e := range events {
		if e.Type == agon.EventModel && bytes.Contains(e.Data, []byte(`"model"`)) {
			calls++
		}
	}
	if calls != 3 {
		t.Errorf("%d model calls among %d events", calls, len(events))
	}
}

// A server that ended after the account was closed, and before it noted so, completes
// the run all the same, for what the statement says it cost.
func TestLentSessionClosedBefore(t *testing.T) {
	w, g := lending(t)
	w.submit('a', "a", goodAgent)
	run, _ := w.play('v', 2)
	if code, body := w.ask(text(t, run, "chutes_access_token"), question); code != 200 {
		t.Fatalf("a call: %d %s", code, body)
	}
	page, err := w.api.Runs(bg, platform.Caller{Operator: true}, "demo-shopping", "", "playing", "", 10)
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%v, %v", page, err)
	}
	s, err := g.Seal(bg, page.Items[0].Run.Run, 1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	w.must('v', "POST", "/v1/validator/evaluation-runs/"+text(t, run, "eval_run_id")+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 200, "")
	got, err := w.api.Run(bg, platform.Caller{Operator: true}, page.Items[0].Run.Run)
	if err != nil || got.List[0].CostMicros != s.Cost || s.Cost == 0 {
		t.Errorf("%+v, %v; the statement says %d", got, err, s.Cost)
	}
}

// A lease that runs out takes its token with it, and a server that starts anew
// knows the tokens of leases that live.
func TestLentTokenEnds(t *testing.T) {
	w, _ := lending(t)
	w.submit('a', "a", goodAgent)
	run, _ := w.play('v', 2)
	token := text(t, run, "chutes_access_token")
	h, err := New(w.cfg) // the same folder
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	if code, body := w.ask(token, question); code != 200 {
		t.Fatalf("after a start: %d %s", code, body)
	}
	w.skip(24 * time.Hour)
	if code, _ := w.ask(token, question); code != http.StatusUnauthorized {
		t.Errorf("after the lease: %d", code)
	}
}

// Without a gateway there is no token, and with one it is never a miner's.
func TestNoGatewayNoToken(t *testing.T) {
	w := newWorld(t)
	w.submit('a', "a", goodAgent)
	run, _ := w.play('v', 2)
	if run["chutes_access_token"] != nil || run["inference_token"] != nil {
		t.Errorf("%v", run)
	}
	if code, _ := w.ask("x.y", question); code != http.StatusUnauthorized {
		t.Errorf("a call without a gateway: %d", code)
	}
	var list []map[string]any
	if _, _, raw := w.json(0, "GET", "/chutes/utilization", ""); json.Unmarshal(raw, &list) != nil || len(list) != 1 || list[0]["name"] != "m" {
		t.Errorf("utilization %v", list)
	}
}

// A lent call belongs to the problem whose query it brings; what the validator's judge
// asks belongs to none.
func TestLentCallsByProblem(t *testing.T) {
	w, _ := lending(t)
	w.submit('a', "a", goodAgent)
	run, _ := w.play('v', 2)
	token := text(t, run, "chutes_access_token")
	query := func(i int) string { return fmt.Sprintf("secret wish %d", i) }
	say := func(system, user string) {
		t.Helper()
		b, err := json.Marshal(map[string]any{"model": "m", "max_tokens": 1, "messages": []map[string]any{
			{"role": "system", "content": system}, {"role": "user", "content": []map[string]string{{"type": "text", "text": user}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if code, body := w.ask(token, string(b)); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	say("You shop.", "# History\n<user>"+query(1)+"</user>")
	say("You shop.", query(0))
	say(`Answer {"reasoning_quality": n}`, "QUERY: "+query(0))
	w.must('v', "POST", "/v1/validator/evaluation-runs/"+text(t, run, "eval_run_id")+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 200, "")
	page, err := w.api.Runs(bg, platform.Caller{Operator: true}, "demo-shopping", "", "scored", "", 10)
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%v, %v", page, err)
	}
	r := page.Items[0]
	events, err := w.api.Events(bg, platform.Caller{Operator: true}, r.Run.Run, 0, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		if e.Type == agon.EventModel {
			got = append(got, e.Task)
		}
	}
	if want := []string{r.Tasks[1].Key, r.Tasks[0].Key, ""}; !slices.Equal(got, want) {
		t.Errorf("calls of %q, want %q", got, want)
	}
	receipts, err := w.api.Receipts(bg, platform.Caller{Operator: true}, r.Run.Run, 1)
	of := map[string]int{} // they are listed by id
	for _, x := range receipts {
		of[x.Task]++
	}
	if err != nil || len(receipts) != 3 || of[r.Tasks[0].Key] != 1 || of[r.Tasks[1].Key] != 1 || of[""] != 1 {
		t.Errorf("receipts of %v, %v", of, err)
	}
}
