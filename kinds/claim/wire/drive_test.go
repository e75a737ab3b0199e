package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

// pushedTo makes a validator with a key of its own over HTTP, registers it, and lets it
// play what it is sent when its channel says so.
type pushedTo struct {
	t   *testing.T
	val *Validator
	srv *httptest.Server
}

func (w *world) validator(c byte, uid int, fetch func(batch, artifact string) []byte, play func(Pair) Result) *pushedTo {
	t := w.t
	t.Helper()
	w.keys[c] = key(t, c)
	h := w.keys[c].SS58()
	w.net[h] = dialect.Member{Hotkey: h, Coldkey: "cold-" + string(c), UID: uint16(uid), Validator: true}
	v, err := NewValidator(ValidatorConfig{
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{Detail: true}}, Now: w.clock, Replay: replay{}, Members: w.net},
		Owner:    "cold-o", UID: uid, Dir: t.TempDir(), Now: w.clock, Attempts: 1,
		Fetch: func(_ context.Context, b, a string) ([]byte, error) { return fetch(b, a), nil },
		Play: func(_ context.Context, p Pair) (Result, error) {
			r := play(p)
			if r.ErrorCode == CodeStart {
				return r, errors.New("no box here")
			}
			return r, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := &pushedTo{t, v, httptest.NewServer(v.Handler(nil))}
	t.Cleanup(out.srv.Close)
	if status, reply, _ := send(t, w.h, w.keys[c], "POST", "/v1/validators/register", `{"base_url":"`+out.srv.URL+`"}`); status != 200 {
		t.Fatalf("register: %v", reply)
	}
	return out
}

// playAll plays whatever waits.
func (v *pushedTo) playAll() {
	for v.val.step(v.t.Context()) { //nolint:revive // each step is a batch
	}
}

// Batches are pushed to registered validators, who play the claims that were sent; the
// medians of their grades move the roster, whoever lies, is late or says what cannot be.
func TestDriven(t *testing.T) {
	w := newWorld(t)
	w.cfg.Driver = Driver{Key: w.keys['o'], Private: true, Grace: time.Hour}
	p, h, err := NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	scriptOf := func(batch, artifact string) []byte {
		status, _, raw := send(t, w.h, w.keys['v'], "GET", "/v1/miner-task-batches/"+batch+"/artifacts/"+artifact, "")
		if status != 200 {
			t.Errorf("a validator reads a script: %d %s", status, raw)
		}
		return raw
	}
	honest := func(p Pair) Result {
		right := map[string]float64{"good": 1, "fair": 0.5}[string(p.Script)]
		r := Result{Verdict: p.Claim.Reference.Verdict, Justification: "x", Usage: Usage{LLMCost: .001}}
		switch {
		case right == 1:
			r.VerdictScore, r.SupportScore, r.SupportPass = .5, .5, true
		case right > 0:
			r.VerdictScore = .5
		default:
			r.Verdict = -p.Claim.Reference.Verdict
		}
		return r
	}
	lying := func(p Pair) Result {
		if string(p.Script) == "bad" {
			return Result{Verdict: 1, Justification: "mine", VerdictScore: .5, SupportScore: .5}
		}
		return Result{Verdict: 1, Justification: "x"}
	}
	one, two, liar := w.validator('e', 11, scriptOf, honest), w.validator('f', 12, scriptOf, honest), w.validator('g', 13, scriptOf, lying)
	killed := w.validator('j', 14, scriptOf, honest)
	w.validator('v', 3, scriptOf, honest) // it never plays
	ids := map[string]string{}
	for c, s := range map[byte]string{'a': "bad", 'b': "fair"} {
		_, out, _ := send(t, w.h, w.keys[c], "POST", scripts, upload(s))
		ids[s] = out["artifact_id"].(string)
	}
	make1 := func(body string) string {
		t.Helper()
		status, b, raw := send(t, w.h, w.keys['o'], "POST", "/v1/miner-task-batches/batch", body)
		if status != 200 || b["status"] != "running" {
			t.Fatalf("%d %s", status, raw)
		}
		return b["batch_id"].(string)
	}
	// The claim of the request is one that the arena has not.
	own := claims()[:1]
	own[0].ClaimID, own[0].Text = "6ba7b812-9dad-11d1-80b4-00c04fd430c8", "Two and two is four."
	var told []string
	watch := func(p Pair) { told = append(told, p.Claim.Text) }
	inner := one.val.cfg.Play
	one.val.cfg.Play = func(ctx context.Context, p Pair) (Result, error) { watch(p); return inner(ctx, p) }
	id := make1(`{"override_miner_task_dataset":{"entrypoint":"evaluate_criterion","claims":` + claimsJSON(t, own) + `}}`)
	state := func() (string, map[string]map[string]any, map[string]any) {
		t.Helper()
		_, out, _ := send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+id, "")
		list := map[string]map[string]any{}
		for _, d := range out["deliveries"].([]any) {
			row := d.(map[string]any)
			list[fmt.Sprint(row["validator_uid"])] = row
		}
		rows := map[string]any{}
		for _, a := range out["artifact_aggregates"].([]any) {
			row := a.(map[string]any)
			rows[row["artifact_id"].(string)] = row["score"]
		}
		return out["summary"].(map[string]any)["status"].(string), list, rows
	}
	// A script is everybody's to read when a batch that it was in has ended.
	read := func(name string) int {
		t.Helper()
		status, _, _ := send(t, w.h, nil, "GET", "/v1/monitoring/miner-scripts/"+ids[name]+"?include_content=true", "")
		return status
	}
	p.Step(t.Context()) // pushed
	killed.srv.Close()
	if got := read("fair"); got != 403 {
		t.Errorf("a script is read while its batch runs: %d", got)
	}
	one.playAll()
	two.playAll()
	p.Step(t.Context())
	if status, list, _ := state(); status != "running" || list["11"]["status"] != "graded" || list["13"]["status"] != "accepted" || list["14"]["error"] == nil {
		t.Fatalf("half of it: %s %v", status, list)
	}
	if len(told) != 2 || told[0] != "Two and two is four." {
		t.Errorf("played %v", told)
	}
	// The platform is stopped and comes back: it asks on where it was.
	if p, w.h, err = NewPlatform(w.cfg); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := send(t, w.h, w.keys['e'], "GET", "/v1/weights", ""); status != 403 || out["error_code"] != "no_recent_batch" {
		t.Errorf("weights before a batch is over: %d %v", status, out)
	}
	liar.playAll()
	p.Step(t.Context())
	if status, _, _ := state(); status != "running" {
		t.Fatal("it ended before the killed one had its time")
	}
	w.later(2 * time.Hour)
	p.Step(t.Context())
	status, list, rows := state()
	if status != "completed" || list["14"]["status"] != "late" || list["13"]["differs_from_median"] != 2.0 || list["11"]["differs_from_median"] != 0.0 {
		t.Errorf("the end: %s %v", status, list)
	}
	if got := read("fair"); got != 200 {
		t.Errorf("a script is read after its batch: %d", got)
	}
	if rows[ids["bad"]] != 0.0 || rows[ids["fair"]] != 0.5 {
		t.Errorf("scores %v", rows)
	}
	_, _, raw := send(t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+id+"/artifacts/"+ids["fair"]+"/tasks/"+own[0].ClaimID+"/results", "")
	if strings.Count(string(raw), `"score":0.5`) != 2 || strings.Count(string(raw), `"score":0,`) != 1 {
		t.Errorf("what each said: %s", raw)
	}
	weights := func() map[string]any {
		t.Helper()
		status, out, raw := send(t, w.h, w.keys['e'], "GET", "/v1/weights", "")
		if status != 200 {
			t.Fatalf("%d %s", status, raw)
		}
		return out
	}
	if out := weights(); fmt.Sprint(out["final_top"]) != "[2 <nil> <nil>]" || fmt.Sprint(out["weights"]) != "map[0:0.4 2:0.6]" {
		t.Errorf("after the first batch: %v", out)
	}
	// A better script of the other miner takes the first place in the next batch.
	_, out, _ := send(t, w.h, w.keys['a'], "POST", scripts, upload("good"))
	ids["good"] = out["artifact_id"].(string)
	if got := read("good"); got != 403 {
		t.Errorf("a script is read before its batch: %d", got)
	}
	killedToo := func() {
		p.Step(t.Context())
		one.playAll()
		two.playAll()
		liar.playAll()
		w.later(time.Minute)
		p.Step(t.Context())
		w.later(25 * time.Hour)
		p.Step(t.Context())
	}
	id = make1(`{}`)
	killedToo()
	if status, _, rows := state(); status != "completed" || rows[ids["good"]] != 1.0 || rows[ids["fair"]] != .5 {
		t.Errorf("the second: %s %v", status, rows)
	}
	if out := weights(); fmt.Sprint(out["final_top"]) != "[1 2 <nil>]" || out["champion_uid"] != 1.0 {
		t.Errorf("after the second batch: %v", out)
	}
	// Where most cannot play, the batch fails and nobody moves.
	id = make1(`{}`)
	none := func(context.Context, Pair) (Result, error) { return Result{}, errors.New("no box here") }
	one.val.cfg.Play, two.val.cfg.Play = none, none
	killedToo()
	if status, list, _ := state(); status != "failed" || list["11"]["status"] != "refused" {
		t.Errorf("nobody could play: %s %v", status, list)
	}
	if out := weights(); fmt.Sprint(out["final_top"]) != "[1 2 <nil>]" {
		t.Errorf("after a failed batch: %v", out)
	}
	// An embargo keeps scripts with their miners, batch or not.
	a, err := w.api.Arena(bg, "demo-claim")
	if err != nil {
		t.Fatal(err)
	}
	a.Embargo = agon.MostEmbargo
	if err := w.api.EnsureArena(bg, a.Arena); err != nil {
		t.Fatal(err)
	}
	if got := read("fair"); got != 403 {
		t.Errorf("a script is read within its embargo: %d", got)
	}
}

func claimsJSON(t *testing.T, list []Claim) string {
	t.Helper()
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
}

func rawRows(rows ...[]byte) []json.RawMessage {
	out := []json.RawMessage{}
	for _, r := range rows {
		out = append(out, r)
	}
	return out
}

// What a validator says is looked at before it counts.
func TestReadGrades(t *testing.T) {
	b := Batch{Claims: claims()[:1], Candidates: []Candidate{{ArtifactID: "aaaaaaaa-2222-4333-8444-555555555555"}}}
	row := func(verdict, support, cost any, code string) []byte {
		return fmt.Appendf(nil, `{"criterion_evaluation":{"artifact_id":"aaaaaaaa-2222-4333-8444-555555555555","claim_id":%q,"verdict":1,"justification":"x","citations":[]},"score":{"verdict_score":%v,"support_score":%v,"error_code":%s},"total_tool_usage":{"llm_cost":%v,"search_tool_cost":0}}`, claims()[0].ClaimID, verdict, support, code, cost)
	}
	if got, err := readGrades(b, rawRows(row(.5, .5, .01, "null"))); err != nil || got[0].score() != 1 || got[0].CostUSD != .01 {
		t.Fatalf("%+v %v", got, err)
	}
	for name, rows := range map[string][][]byte{
		"too few": {}, "twice": {row(.5, .5, 0, "null"), row(.5, .5, 0, "null")}, "a score above": {row(1, .5, 0, "null")}, "support alone": {row(0, .5, 0, "null")},
		"negative cost": {row(.5, 0, -1, "null")}, "no object": {[]byte(`[]`)}, "not a number": {row(`"x"`, 0, 0, "null")}, "it could not start": {row(0, 0, 0, `"sandbox_start_failed"`)},
		"another pair": {[]byte(`{"criterion_evaluation":{"artifact_id":"b","claim_id":"c"}}`)},
	} {
		if got, err := readGrades(b, rawRows(rows...)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
