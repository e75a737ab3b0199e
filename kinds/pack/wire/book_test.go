package wire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// led is a world whose arena leads its validators by epochs.
func led(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.cfg.Epochs = true
	w.open()
	return w
}

// blocks lets the ledger go on.
func (w *world) blocks(n uint64) {
	w.net.g.Block += n
	w.skip(time.Duration(n) * 12 * time.Second)
}

// signed is a body signed by key k for a purpose that names more than the hotkey.
func (w *world) signed(k byte, purpose string, body map[string]any, more ...string) map[string]any {
	w.t.Helper()
	at := w.now().Unix()
	sig, err := w.keys[k].Sign(signin.Message(purpose, w.ss58(k), fmt.Sprint(at), more...))
	must(w.t, err)
	out := map[string]any{"validator_hotkey": w.ss58(k), "timestamp": at, "signature": "0x" + hex.EncodeToString(sig)}
	for name, v := range body {
		out[name] = v
	}
	return out
}

func (w *world) send(path string, body map[string]any) (int, string) {
	w.t.Helper()
	b, err := json.Marshal(body)
	must(w.t, err)
	status, raw := w.do("POST", path, "application/json", b)
	var out struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(raw, &out) // a success has none
	return status, out.Error
}

// says posts a score of the open epoch.
func (w *world) says(k byte, id int, score float64, qualified bool) (int, string) {
	w.t.Helper()
	return w.send(fmt.Sprintf("/api/v2/epoch/%d/score", id), w.signed(k, "trajectoryrl-challenge-score", map[string]any{
		"version": "0.6.31", "llm_model": "m", "challenger": map[string]any{"score": score, "qualified": qualified, "scenario_results": map[string]any{
			"stand_up": map[string]any{"score": score / 3, "weight": 1.0, "qualified": qualified},
		}},
	}, fmt.Sprint(id)))
}

// current reads the open epoch as a key sees it; k 0: unsigned.
func (w *world) current(k byte, status int) map[string]any {
	w.t.Helper()
	w.skip(2 * time.Second)
	path := "/api/v2/epoch/current"
	if k != 0 {
		at := fmt.Sprint(w.now().Unix())
		sig, err := w.keys[k].Sign(signin.Message("trajectoryrl-epoch-current", w.ss58(k), at))
		must(w.t, err)
		path += "?" + url.Values{"hotkey": {w.ss58(k)}, "timestamp": {at}, "signature": {"0x" + hex.EncodeToString(sig)}}.Encode()
	}
	got := w.get(path, status)
	e, _ := got["epoch"].(map[string]any)
	return e
}

func words(text string) []byte {
	return packfile.Build(packfile.BuildOptions{Policy: text}).Canonical
}

// An epoch from the pack's entry to its winner, as the field's clients see it.
func TestEpochIsPlayed(t *testing.T) {
	w := led(t)
	if got := w.get("/api/v2/epoch/current", 404); got["error"] != "no epoch in progress" {
		t.Errorf("an empty queue: %v", got)
	}
	_, first := w.enter('a', samplePack(t, "baseline"))
	w.enter('a', words("Count the boats in the harbour, then tell the harbour master which of them may sail before noon."))
	w.enter('b', samplePack(t, "optimised"))

	// Who may fetch the pack: a validator that signed. A signature that does not hold is not refused.
	for _, k := range []byte{0, 'x', 'a'} {
		if e := w.current(k, 200); e["challenger_pack_url"] != nil || e["challenger_pack_hash"] != first {
			t.Errorf("%q sees %v", k, e)
		}
	}
	e := w.current('v', 200)
	id := int(e["challenge_epoch_id"].(float64))
	u, _ := e["challenger_pack_url"].(string)
	path := strings.TrimPrefix(u, "http://arena.example:8900")
	if status, body := w.do("GET", path, "", nil); status != 200 || path == u {
		t.Fatalf("pack at %q: %d", u, status)
	} else if p, err := packfile.Read(body); err != nil || p.Hash != first {
		t.Errorf("another pack: %v", err)
	}
	if status, _ := w.do("GET", strings.Replace(path, "/pack/", "/pack/0", 1), "", nil); status != 404 {
		t.Errorf("another token: %d", status)
	}
	q := rows(t, w.get("/api/queue", 200), "queue")
	if len(q) != 2 || q[0]["eligible_now"] != false || q[1]["eligible_now"] != true {
		t.Errorf("a has its turn, b waits: %v", q)
	}

	for _, state := range []string{"running", "verifying", "complete"} {
		body := w.signed('v', "trajectoryrl-scenario-progress", map[string]any{
			"miner_hotkey": w.ss58('a'), "miner_uid": 3, "scenario_name": "stand_up", "scenario_index": 1, "total_scenarios": 3, "quality": 0.5, "state": state,
		}, fmt.Sprint(id), "stand_up")
		if status, text := w.send(fmt.Sprintf("/api/v2/epoch/%d/scenario_progress", id), body); status != 200 {
			t.Errorf("%s: %d %s", state, status, text)
		}
		if status, _ := w.send(fmt.Sprintf("/api/v2/epoch/%d/scenario_progress", id+1), body); status != 401 {
			t.Errorf("%s at another epoch: %d", state, status)
		}
	}
	st := w.get("/api/challenge/state", 200)
	if p := rows(t, st, "scenario_progress"); len(p) != 1 || !reflect.DeepEqual(p[0]["progress"].(map[string]any)["states"], []any{"running", "verifying", "complete"}) {
		t.Errorf("progress %v", p)
	}

	for _, c := range []struct {
		k         byte
		id        int
		score     float64
		qualified bool
		status    int
		text      string
	}{
		{'v', id, 101, true, 400, "challenger.score must be"},
		{'x', id, 2, true, 403, "not a registered validator"},
		{'a', id, 2, true, 403, "not a registered validator"},
		{'v', 999, 2, true, 404, "epoch not found"},
		{'v', id, 2.4, true, 200, ""},
		{'v', id, 2.9, true, 409, "already"},
		{'w', id, 2.2, true, 200, ""},
	} {
		if status, text := w.says(c.k, c.id, c.score, c.qualified); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%c says %v of %d: %d %q, want %d %q", c.k, c.score, c.id, status, text, c.status, c.text)
		}
	}
	replay := w.signed('w', "trajectoryrl-challenge-score", map[string]any{"challenger": map[string]any{"score": 1.0, "qualified": true}}, "999")
	if status, _ := w.send(fmt.Sprintf("/api/v2/epoch/%d/score", id), replay); status != 401 {
		t.Errorf("a signature of another epoch: %d", status)
	}
	for name, body := range map[string]map[string]any{
		"no challenger": {}, "no number": {"challenger": map[string]any{"score": "2", "qualified": true}}, "no boolean": {"challenger": map[string]any{"score": 2.0}},
		"rejected with a score": {"challenger": map[string]any{"score": 2.0, "qualified": true, "rejected": true}},
	} {
		if status, _ := w.send(fmt.Sprintf("/api/v2/epoch/%d/score", id), w.signed('v', "trajectoryrl-challenge-score", body, fmt.Sprint(id))); status != 400 {
			t.Errorf("%s: %d", name, status)
		}
	}

	w.blocks(29) // all have spoken, and it is too early
	w.open()     // a restart forgets nothing
	if e := w.current('v', 200); e["challenge_epoch_id"] != float64(id) {
		t.Errorf("after 29 blocks: %v", e)
	}
	if status, _ := w.says('v', id, 2.4, true); status != 409 {
		t.Errorf("again after a restart: %d", status)
	}
	w.blocks(1)
	if e := w.current('v', 200); e["challenge_epoch_id"] != float64(id+1) {
		t.Errorf("after 30 blocks: %v", e)
	}
	if status, text := w.says('v', id, 2.4, true); status != 409 || text != "epoch is finalized" {
		t.Errorf("a score of what has ended: %d %s", status, text)
	}
	ep, _ := w.get(fmt.Sprint("/api/epoch/", id), 200)["epoch"].(map[string]any)
	if ep["outcome"] != "winner_replaced" || ep["consensus_score"] != 2.3 || ep["status"] != "finalized" {
		t.Errorf("the first epoch: %v", ep)
	}
	win := w.get("/api/v2/winner/current", 200)
	if seat, _ := win["winner"].(map[string]any); seat["hotkey"] != w.ss58('a') || seat["score"] != 2.3 || seat["since_epoch_id"] != float64(id) {
		t.Errorf("winner %v", win["winner"])
	}
	if subs := rows(t, win, "submissions"); len(subs) != 2 || subs[0]["validator_hotkey"] != w.ss58('v') || subs[0]["challenger_score"] != 2.4 {
		t.Errorf("what was said: %v", subs)
	}
	if h := rows(t, w.get("/api/winner/history", 200), "history"); len(h) != 1 || h[0]["changed_from_prev"] != true {
		t.Errorf("history %v", h)
	}

	// Nobody plays the second: it ends at its block without a quorum, and the seat stays.
	w.blocks(150)
	if e := w.current(0, 200); e["challenger_hotkey"] != w.ss58('b') {
		t.Errorf("the third: %v", e)
	}
	if ep, _ := w.get(fmt.Sprint("/api/epoch/", id+1), 200)["epoch"].(map[string]any); ep["outcome"] != "aborted_quorum" || ep["winner_score"] != 2.3 {
		t.Errorf("the second: %v", ep)
	}
	// The third is played by agon's own validators: what the platform saw are their votes.
	for w.playOne('v', func(string, string) (bool, float64) { return true, 0.02 }) {
	}
	w.blocks(30)
	w.current(0, 200)
	w.blocks(150)
	if w.current(0, 404) != nil {
		t.Error("an epoch without a submission")
	}
	got := w.get("/api/v2/epochs", 200)
	list := rows(t, got, "epochs")
	third := list[2]
	if votes := rows(t, third, "votes"); len(votes) != 1 || votes[0]["played"] != true || votes[0]["validator"] != w.ss58('v') || votes[0]["score"] != 3.0 {
		t.Errorf("agon's own votes: %v", third["votes"])
	}
	if a, _ := got["audit"].(map[string]any); a["agreed"] != true || a["epochs"] != 3.0 || third["outcome"] != "winner_replaced" {
		t.Errorf("audit %v, the third %v", a, third["outcome"])
	}
}

// What somebody changed on the disk raises the alarm.
func TestTamperedEpochIsSeen(t *testing.T) {
	w := led(t)
	w.enter('a', samplePack(t, "baseline"))
	e := w.current('v', 200)
	id := int(e["challenge_epoch_id"].(float64))
	w.says('v', id, 2, true)
	w.says('w', id, 2, true)
	w.blocks(31)
	w.current(0, 404)
	if a, _ := w.get("/api/v2/epochs", 200)["audit"].(map[string]any); a["agreed"] != true || a["stale"] != false {
		t.Fatalf("sound: %v", a)
	}
	name := fmt.Sprintf("epoch-%d", id)
	var doc map[string]any
	if ok, err := w.cfg.Documents.Get(name, &doc); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	votes, _ := doc["votes"].([]any)
	for _, v := range votes {
		v.(map[string]any)["score"] = 1.0
	}
	must(t, w.cfg.Documents.Put(name, doc))
	w.open()
	a, _ := w.get("/api/v2/epochs", 200)["audit"].(map[string]any)
	what := names(rows(t, a, "alarms"), "what")
	if a["agreed"] != false || !slices.ContainsFunc(what, func(s string) bool { return strings.Contains(s, "the scores give 1.0000, published is 2.0000") }) {
		t.Errorf("tampered: %v", a)
	}
	w.skip(25 * time.Hour)
	if a, _ := w.get("/api/v2/epochs", 200)["audit"].(map[string]any); a["stale"] != true {
		t.Errorf("a day later: %v", a)
	}
}

// Without the option there is no epoch, and the routes say so as that system does.
func TestNoEpochs(t *testing.T) {
	w, _ := filled(t)
	if got := w.get("/api/v2/epoch/current", 404); got["error"] != "no epoch in progress" {
		t.Errorf("%v", got)
	}
	if status, _ := w.says('v', 1, 2, true); status != 404 {
		t.Errorf("a score: %d", status)
	}
	w.get("/api/v2/epochs", 404)
}
