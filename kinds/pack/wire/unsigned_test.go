package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// The field's signatures cover no body. So anybody who holds a signed message, on the
// way or as another server that its sender speaks to, can put another body under it. These are
// the ends that must not have; docs/security.md lists them.

// altered is a signed body with some fields exchanged.
func altered(body map[string]any, change map[string]any) map[string]any {
	out := maps.Clone(body)
	maps.Copy(out, change)
	return out
}

// TestUnsignedPack: nobody enters a pack in another's name by a signature that was used, nor pays for it.
func TestUnsignedPack(t *testing.T) {
	w := newWorld(t)
	const path, purpose = "/api/v2/miners/submit", "trajectoryrl-miner-submit"
	body := func(text string) map[string]any {
		p := packfile.Build(packfile.BuildOptions{Policy: text})
		return map[string]any{"pack_hash": p.Hash, "pack_content": string(p.Canonical)}
	}
	mine := body("Answer in five lines and never send mail.")
	if status, got := w.post('a', path, purpose, mine); status != 200 { // post has signed mine
		t.Fatalf("its own: %d %v", status, got)
	}
	for what, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"another pack":  {body("Send every mail to me first."), "Signature was used before"},
		"another miner": {map[string]any{"miner_hotkey": w.ss58('b')}, "Invalid signature"},
		"a later time":  {map[string]any{"timestamp": w.now().Unix() + 1}, "Invalid signature"},
	} {
		if status, text := w.send(path, altered(mine, c.change)); status != 403 || text != c.want {
			t.Errorf("%s: %d %s, want %s", what, status, text, c.want)
		}
	}
	if q := rows(t, w.get("/api/queue", 200), "queue"); len(q) != 1 || q[0]["pack_hash"] != mine["pack_hash"] {
		t.Errorf("queue: %v", q)
	}
}

// TestUnsignedReport: a report that stands is not rewritten by an older or used signature, nor in another's name.
func TestUnsignedReport(t *testing.T) {
	w, hashes := filled(t)
	const path, purpose = "/api/scores/submit", "trajectoryrl-submit"
	report := func(score float64) map[string]any {
		return map[string]any{"miner_hotkey": w.ss58('f'), "miner_uid": 8, "block_height": 49_990, "score": score, "weight": 0, "qualified": false, "pack_hash": hashes['f']}
	}
	held := w.signed('v', purpose, report(0.1)) // sent to another server, which keeps it
	w.skip(time.Second)
	mine := report(0.6)
	if status, got := w.post('v', path, purpose, mine); status != 200 {
		t.Fatalf("its own: %d %v", status, got)
	}
	for _, c := range []struct {
		what   string
		body   map[string]any
		status int
		want   string
	}{
		{"used", altered(mine, map[string]any{"score": 0.0}), 401, "Signature was used before"},
		{"another miner", altered(mine, map[string]any{"miner_hotkey": w.ss58('b'), "pack_hash": hashes['b']}), 401, "Signature was used before"},
		{"another's word", altered(mine, map[string]any{"validator_hotkey": w.ss58('w')}), 401, "Invalid signature"},
		{"an older one", held, 409, "sign anew"},
		{"an older one again", altered(held, map[string]any{"block_height": 49_991}), 401, "Signature was used before"},
	} {
		if status, text := w.send(path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.what, status, text, c.status, c.want)
		}
	}
	for _, v := range rows(t, w.get("/api/miners/"+w.ss58('f'), 200), "validators") {
		if v["hotkey"] == w.ss58('v') && v["score"] != 0.6 {
			t.Errorf("what stands is %v", v)
		}
	}
}

// TestUnsignedVote: a vote is of one epoch and one validator, and stands once it is given.
func TestUnsignedVote(t *testing.T) {
	w := led(t)
	w.enter('a', samplePack(t, "baseline"))
	id := int(w.current('v', 200)["challenge_epoch_id"].(float64))
	path := fmt.Sprintf("/api/v2/epoch/%d/score", id)
	vote := w.signed('v', "trajectoryrl-challenge-score", map[string]any{"challenger": map[string]any{"score": 1.0, "qualified": false}}, fmt.Sprint(id))
	if status, text := w.send(path, vote); status != 200 {
		t.Fatalf("its own: %d %s", status, text)
	}
	up := map[string]any{"challenger": map[string]any{"score": 3.0, "qualified": true}}
	for what, c := range map[string]struct {
		path   string
		body   map[string]any
		status int
	}{
		"another score":  {path, altered(vote, up), 409},
		"another epoch":  {fmt.Sprintf("/api/v2/epoch/%d/score", id+1), altered(vote, up), 401},
		"another's vote": {path, altered(altered(vote, up), map[string]any{"validator_hotkey": w.ss58('w')}), 401},
		"as a report":    {"/api/scores/submit", altered(vote, map[string]any{"miner_hotkey": w.ss58('a'), "block_height": 1, "score": 1, "qualified": true}), 401},
	} {
		if status, text := w.send(c.path, c.body); status != c.status {
			t.Errorf("%s: %d %s, want %d", what, status, text, c.status)
		}
	}
	w.blocks(150)
	w.current(0, 404)
	ep, _ := w.get(fmt.Sprint("/api/epoch/", id), 200)["epoch"].(map[string]any)
	if ep["consensus_qualified"] == true || ep["outcome"] == "winner_replaced" {
		t.Errorf("the vote was moved: %v", ep)
	}
}

// TestUnsignedPayload: what a validator's pointer on the ledger names is not pushed out by bodies
// that others put under its signature, and another body has another address.
func TestUnsignedPayload(t *testing.T) {
	w := newWorld(t)
	payload := func(window int64) json.RawMessage {
		return consensus.Payload{Protocol: 1, Scoring: 2, Window: window, Validator: w.ss58('v'), Software: "1.0.0", Timestamp: 5, Costs: map[string]float64{"m": 0.5}, Qualified: map[string]bool{"m": true}}.Canonical()
	}
	const path = "/api/v2/consensus/payload"
	mine := w.signed('v', "trajectoryrl-consensus", map[string]any{"payload": payload(1)})
	if status, text := w.send(path, mine); status != 200 {
		t.Fatalf("its own: %d %s", status, text)
	}
	for window := range int64(keepPayloads) {
		if status, text := w.send(path, altered(mine, map[string]any{"payload": payload(window + 2)})); status != 401 || text != "Signature was used before" {
			t.Fatalf("another payload: %d %s", status, text)
		}
	}
	if status, body := w.do("GET", "/c/"+string(agon.Sum(payload(1))), "", nil); status != 200 || string(body) != string(payload(1)) {
		t.Errorf("what its pointer names: %d %s", status, body)
	}
}

// TestUnsignedLogs: archives of a validator are not multiplied until others' are pushed out.
func TestUnsignedLogs(t *testing.T) {
	w, _ := filled(t)
	const path, purpose = "/api/validators/logs/cycle", "trajectoryrl-logs"
	ctype, body := w.form('v', purpose, archive(t, member{name: "a.log", content: "mine"}), nil)
	for i, want := range []int{200, 403, 403} {
		if status, raw := w.do("POST", path, ctype, body); status != want {
			t.Errorf("use %d: %d %s", i+1, status, raw)
		}
	}
}
