package wire

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/consensus"
)

// Validators without a platform keep their payloads here: twice is as good as
// once, the address names the bytes, others read them, and only so many are kept.
func TestPayloads(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	payload := func(k byte, window int64) consensus.Payload {
		return consensus.Payload{
			Protocol: 1, Scoring: 2, Window: window, Validator: w.ss58(k), Software: "1.0.0", Timestamp: 5,
			Costs: map[string]float64{"m<&>": 0.5}, Qualified: map[string]bool{"m<&>": true},
		}
	}
	store := &consensus.Server{URL: srv.URL, Signer: w.keys['v'], Now: w.now}
	b := payload('v', 1).Canonical()
	for range 2 { // the second time it is 409
		at, err := store.Put(t.Context(), b)
		if err != nil || at != srv.URL+"/c/"+string(agon.Sum(b)) || !consensus.Verify(at, b) {
			t.Fatal(at, err)
		}
	}
	if got, from, err := store.Get(t.Context(), string(agon.Sum(b))); err != nil || string(got) != string(b) || from != "server" {
		t.Errorf("%v from %s: %s", err, from, got)
	}
	if _, err := (&consensus.Server{URL: srv.URL, Signer: w.keys['a'], Now: w.now}).Put(t.Context(), payload('a', 1).Canonical()); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a miner: %v", err)
	}
	other := payload('w', 1).Canonical()
	for name, c := range map[string]struct {
		payload any
		status  int
		want    string
	}{
		"another's":     {json.RawMessage(other), 400, "another validator_hotkey"},
		"none":          {nil, 400, "payload must be an object"},
		"a text":        {"{}", 400, "payload must be an object"},
		"not a payload": {map[string]any{"a": 1}, 400, "protocol_version"},
		"too large":     {map[string]any{"a": strings.Repeat("x", maxPayload)}, 400, "524288"},
	} {
		body := map[string]any{}
		if c.payload != nil {
			body["payload"] = c.payload
		}
		if status, got := w.post('v', "/api/v2/consensus/payload", "trajectoryrl-consensus", body); status != c.status || !strings.Contains(fmt.Sprint(got), c.want) {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	if status, got := w.post('v', "/api/v1/consensus/payload", "trajectoryrl-heartbeat", map[string]any{"payload": json.RawMessage(b)}); status != 401 {
		t.Errorf("a signature of another use: %d %v", status, got)
	}
	for window := range int64(keepPayloads) {
		if _, err := store.Put(t.Context(), payload('v', window+2).Canonical()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := store.Get(t.Context(), string(agon.Sum(b))); err == nil {
		t.Error("the oldest is still there")
	}
	if names, err := w.cfg.Documents.Names("payload-"); err != nil || len(names) != keepPayloads {
		t.Errorf("%d documents, %v", len(names), err)
	}
	for _, bad := range []string{"x", "sha256:" + strings.Repeat("/", 64), ".."} {
		if status, _ := w.do("GET", "/c/"+bad, "", nil); status == 200 {
			t.Errorf("%q is served", bad)
		}
	}
}
