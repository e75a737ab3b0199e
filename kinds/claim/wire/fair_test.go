package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/claim/roster"
)

// judged is a world with two honest validators and a third, and how each grades: what a
// script is called is what it is worth.
func judged(t *testing.T, third func(Pair) Result) (w *world, p *Platform, all []*pushedTo) {
	t.Helper()
	w = newWorld(t)
	w.cfg.Driver = Driver{Key: w.keys['o'], Private: true, Grace: time.Hour}
	p, h, err := NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	scriptOf := func(batch, artifact string) []byte {
		_, _, raw := send(t, w.h, w.keys['e'], "GET", "/v1/miner-task-batches/"+batch+"/artifacts/"+artifact, "")
		return raw
	}
	honest := func(p Pair) Result {
		r := Result{Verdict: p.Claim.Reference.Verdict, Justification: "x"}
		switch string(p.Script) {
		case "good":
			r.VerdictScore, r.SupportScore = .5, .5
		case "fair":
			r.VerdictScore = .5
		default:
			r.Verdict = -r.Verdict
		}
		return r
	}
	if third == nil {
		third = honest
	}
	all = []*pushedTo{w.validator('e', 11, scriptOf, honest), w.validator('f', 12, scriptOf, honest), w.validator('g', 13, scriptOf, third)}
	return w, p, all
}

// batch makes one, plays it whole, and returns its page and who is on the roster.
func (w *world) batch(p *Platform, by byte, body string, all []*pushedTo) (page map[string]any, top string) {
	w.t.Helper()
	status, b, raw := send(w.t, w.h, w.keys[by], "POST", "/v1/miner-task-batches/batch", body)
	if status != 200 {
		w.t.Fatalf("%d %s", status, raw)
	}
	p.Step(w.t.Context())
	for _, v := range all {
		v.playAll()
	}
	p.Step(w.t.Context())
	_, page, raw = send(w.t, w.h, nil, "GET", "/v1/monitoring/miner-task-batches/"+b["batch_id"].(string), "")
	if page["summary"].(map[string]any)["status"] != "completed" {
		w.t.Fatalf("%s", raw)
	}
	_, out, _ := send(w.t, w.h, w.keys['e'], "GET", "/v1/weights", "")
	return page, fmt.Sprint(out["final_top"])
}

func (w *world) upload(by byte, script string) string {
	w.t.Helper()
	status, out, raw := send(w.t, w.h, w.keys[by], "POST", scripts, upload(script))
	if status != 200 {
		w.t.Fatalf("%d %s", status, raw)
	}
	return out["artifact_id"].(string)
}

// A validator that names the claims of a batch seats nobody by it, nor does another one
// that plays them again. The owner of the subnet may, but not for scripts that came after they were handed out.
func TestClaimsOfAValidatorSeatNobody(t *testing.T) {
	w, p, all := judged(t, nil)
	w.upload('a', "fair")
	own := claims()[:1]
	own[0].ClaimID, own[0].Text = "6ba7b812-9dad-11d1-80b4-00c04fd430c8", "Two and two is four."
	named := `{"override_miner_task_dataset":{"entrypoint":"evaluate_criterion","claims":` + claimsJSON(t, own) + `}}`
	for i, body := range []string{named, `{"use_previous_task_dataset":true}`} {
		if i > 0 { // a validator's own claims are played once a day
			if status, out, _ := send(t, w.h, w.keys['e'], "POST", "/v1/miner-task-batches/batch", body); status != 409 || out["error_code"] != "nothing_new" {
				t.Errorf("at once again: %d %v", status, out)
			}
			w.later(25 * time.Hour)
			for _, c := range "efg" { // they are there
				send(t, w.h, w.keys[byte(c)], "GET", "/v1/weights", "")
			}
		}
		page, top := w.batch(p, 'e', body, all)
		if full := page["batch"].(map[string]any); top != "<nil>" || full["trial"] == nil {
			t.Fatalf("a validator's claims: the roster is %s, %v", top, full)
		}
	}
	told := w.upload('b', "good") // by a miner who was told the answers
	own[0].ClaimID = "6ba7b813-9dad-11d1-80b4-00c04fd430c8"
	named = `{"override_miner_task_dataset":{"entrypoint":"evaluate_criterion","claims":` + claimsJSON(t, own) + `}}`
	page, top := w.batch(p, 'o', named, all)
	if full := page["batch"].(map[string]any); top != "[1 <nil> <nil>]" || full["trial"] != nil || full["claims_handed_out_at"] == nil {
		t.Errorf("the owner's: the roster is %s, %v", top, full)
	}
	for _, a := range page["artifact_aggregates"].([]any) {
		if row := a.(map[string]any); row["late"] != (row["artifact_id"] == told) || row["artifact_id"] == told && row["score"] != 1.0 {
			t.Errorf("%v", row)
		}
	}
	own[0].Text = "Two and three is five."
	if _, top := w.batch(p, 'o', `{"override_miner_task_dataset":{"entrypoint":"evaluate_criterion","claims":`+claimsJSON(t, own)+`}}`, all); top != "[2 1 <nil>]" {
		t.Errorf("by claims that nobody had seen: %s", top)
	}
}

// Hidden claims of the arena count once for who was there before they were first played.
func TestHiddenClaimsSeatWhoWasThere(t *testing.T) {
	w, p, all := judged(t, nil)
	w.hidden = map[string]bool{}
	for _, c := range claims() {
		w.hidden[c.ClaimID] = true
	}
	a, err := w.api.Arena(bg, "demo-claim")
	if err != nil {
		t.Fatal(err)
	}
	a.Period = &agon.Period{Hours: 24}
	if err := w.api.EnsureArena(bg, a.Arena); err != nil {
		t.Fatal(err)
	}
	w.upload('a', "fair")
	if _, top := w.batch(p, 'e', `{}`, all); top != "[1 <nil> <nil>]" {
		t.Fatalf("the first: %s", top)
	}
	w.upload('b', "good")
	if _, top := w.batch(p, 'e', `{}`, all); top != "[1 <nil> <nil>]" {
		t.Errorf("who came after the claims were handed out sits: %s", top)
	}
	clear(w.hidden)
	if status, out, _ := send(t, w.h, w.keys['e'], "POST", "/v1/miner-task-batches/batch", `{}`); status != 409 || out["error_code"] != "nothing_new" {
		t.Errorf("what was graded already: %d %v", status, out)
	}
	w.upload('v', "other") // another script that came late: it is new
	if _, top := w.batch(p, 'e', `{}`, all); top != "[2 1 <nil>]" {
		t.Errorf("by claims that are everybody's: %s", top)
	}
}

// One coldkey holds one place of the batches' roster, as of the arena's own.
func TestOnePlaceOfAColdkey(t *testing.T) {
	w, p, all := judged(t, nil)
	for _, c := range []byte("bv") {
		m := w.net[w.keys[c].SS58()]
		m.Coldkey = "cold-a"
		w.net[w.keys[c].SS58()] = m
	}
	w.upload('a', "fair")
	if _, top := w.batch(p, 'o', `{}`, all); top != "[1 <nil> <nil>]" {
		t.Fatalf("the first: %s", top)
	}
	w.upload('b', "good")
	if _, top := w.batch(p, 'o', `{}`, all); top != "[2 <nil> <nil>]" {
		t.Errorf("its second hotkey: %s", top)
	}
}

// A validator has no say in what scripts of its own coldkey have: neither with others nor alone.
func TestKinAreNotGraded(t *testing.T) {
	lying := func(p Pair) Result {
		r := Result{Verdict: p.Claim.Reference.Verdict, Justification: "x"}
		if string(p.Script) == "mine" {
			r.VerdictScore, r.SupportScore = .5, .5
		}
		return r
	}
	w, p, all := judged(t, lying)
	m := w.net[w.keys['g'].SS58()]
	m.Coldkey = "cold-a"
	w.net[w.keys['g'].SS58()] = m
	w.upload('a', "mine")
	// Two are there, and the middle of two is their mean.
	send(t, w.h, w.keys['f'], "POST", "/v1/validators/register", `{"base_url":"http://127.0.0.1:1"}`)
	w.later(10 * time.Minute)
	page, top := w.batch(p, 'o', `{}`, all)
	if top != "<nil>" {
		t.Errorf("with another: %s", top)
	}
	for _, d := range page["deliveries"].([]any) {
		row := d.(map[string]any)
		if want := map[float64]float64{11: 0, 13: 2}[row["validator_uid"].(float64)]; row["own_left_out"] != want {
			t.Errorf("%v", row)
		}
	}
	all[0].srv.Close()
	w.later(10 * time.Minute)
	if status, out, _ := send(t, w.h, w.keys['g'], "POST", "/v1/miner-task-batches/batch", `{}`); status != 409 || out["error_code"] != "no_validators" {
		t.Errorf("a batch while the others are away: %d %v", status, out)
	}
	if _, top := w.batch(p, 'o', `{}`, all); top != "<nil>" {
		t.Errorf("alone: %s", top)
	}
}

// In the query era, too, a script that came after the queries were handed out is neither seated nor paid.
func TestLateAnswersAreNeitherSeatedNorPaid(t *testing.T) {
	w, _, ids := pulling(t)
	p, _, err := NewPlatform(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := Batch{BatchID: "6ba7b812-9dad-11d1-80b4-00c04fd430c8", Candidates: []Candidate{
		{ArtifactID: ids["one"], UID: 1, Hotkey: w.keys['a'].SS58()}, {ArtifactID: ids["two"], UID: 2, Hotkey: w.keys['b'].SS58()},
	}}
	grid := &roster.Grid{Tasks: []string{"t"}, Rows: []roster.GridRow{
		{Artifact: ids["one"], Vector: []float64{.5}, Total: .5}, {Artifact: ids["two"], Vector: []float64{1}, Total: 1},
	}}
	if err := p.crown(b, &drive{Late: []string{ids["two"]}}, grid); err != nil {
		t.Fatal(err)
	}
	c, err := p.champion()
	if err != nil || c == nil || c.ArtifactID != ids["one"] {
		t.Fatalf("%+v %v", c, err)
	}
	for _, s := range c.Pay {
		if s.Hotkey == w.keys['b'].SS58() {
			t.Errorf("paid: %+v", s)
		}
	}
}
