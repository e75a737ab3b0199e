package wire

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

// A validator compares scripts for the subnet's owner, says so where it has no judge, and
// never makes a class of a failure.
func TestSimilarityRoute(t *testing.T) {
	w := newWorld(t)
	conf := ValidatorConfig{
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{Detail: true}}, Now: w.clock, Replay: replay{}, Members: w.net},
		Owner:    "cold-o", UID: 3, Dir: t.TempDir(), Now: w.clock,
		Fetch: func(context.Context, string, string) ([]byte, error) { return nil, errors.New("no") },
		Play:  func(context.Context, Pair) (Result, error) { return Result{}, errors.New("no") },
	}
	const batch = "11111111-2222-4333-8444-555555555555"
	ask := func(key byte, id, body string) (int, map[string]any) {
		t.Helper()
		v, err := NewValidator(conf)
		if err != nil {
			t.Fatal(err)
		}
		status, out, _ := send(t, v.Handler(nil), w.keys[key], "POST", "/validator/miner-task-batches/"+id+"/similarity", body)
		return status, out
	}
	const body = `{"candidate_artifact_id":"` + batch + `","candidate_diff":"+ x","candidate_miner_uid":0,"incumbent_artifact_id":"` + batch + `","incumbent_miner_uid":2,"incumbent_script":"y"}`
	if status, out := ask('o', batch, body); status != 503 || out["detail"] != "similarity judge is not configured" {
		t.Errorf("without a judge: %d %v", status, out)
	}
	var asked Similarity
	conf.Compare = func(_ context.Context, s Similarity) (Likeness, error) {
		asked = s
		return Likeness{Class: "notable_change", Model: "m", Provider: "gateway", Reasoning: "so"}, nil
	}
	if status, out := ask('o', batch, body); status != 200 || out["classification"] != "notable_change" || out["model"] != "m" || out["provider"] != "gateway" || out["reasoning"] != "so" {
		t.Errorf("%d %v", status, out)
	}
	if asked.BatchID != batch || asked.Diff != "+ x" || asked.Script != "y" || asked.UID != 0 || asked.Owner != 2 {
		t.Errorf("asked %+v", asked)
	}
	conf.Compare = func(context.Context, Similarity) (Likeness, error) { return Likeness{}, errors.New("no model answers") }
	if status, out := ask('o', batch, body); status != 502 || out["error_code"] != "similarity_judge_failed" || out["retryable"] != false || out["detail"] != "no model answers" {
		t.Errorf("a failure: %d %v", status, out)
	}
	conf.Compare = func(context.Context, Similarity) (Likeness, error) {
		return Likeness{}, fmt.Errorf("%w: it was never measured", ErrNoJudge)
	}
	if status, out := ask('o', batch, body); status != 503 || out["detail"] != "similarity judge is not configured: it was never measured" {
		t.Errorf("a judge that was never measured: %d %v", status, out)
	}
	for name, c := range map[string]struct {
		key      byte
		id, body string
		status   int
	}{
		"not the owner": {'v', batch, body, 401}, "no batch": {'o', "x", body, 422}, "nothing": {'o', batch, `{}`, 422}, "no json": {'o', batch, `{`, 422},
		"more than that": {'o', batch, body[:len(body)-1] + `,"x":1}`, 422},
	} {
		if status, out := ask(c.key, c.id, c.body); status != c.status {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}
}

// A status is signed, for the time that the request names, by who it is of.
func TestStatusProof(t *testing.T) {
	w := newWorld(t)
	v, err := NewValidator(ValidatorConfig{
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{Detail: true}}, Now: w.clock, Replay: replay{}, Members: w.net},
		Owner:    "cold-o", UID: 3, Dir: t.TempDir(), Now: w.clock, Key: w.keys['v'],
		Fetch: func(context.Context, string, string) ([]byte, error) { return nil, errors.New("no") },
		Play:  func(context.Context, Pair) (Result, error) { return Result{}, errors.New("no") },
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(at string) map[string]any {
		t.Helper()
		r := httptest.NewRequest("GET", "/validator/status", nil)
		if at != "" {
			r.Header.Set(StatusTime, at)
		}
		rec := httptest.NewRecorder()
		v.Handler(nil).ServeHTTP(rec, r)
		var out map[string]any
		if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := get("1772334000")
	sig, err := hex.DecodeString(out["signature_hex"].(string))
	if err != nil || out["hotkey"] != w.keys['v'].SS58() {
		t.Fatalf("%v %v", out, err)
	}
	if err := auth.Verify(w.keys['v'].SS58(), signin.StatusMessage("1772334000", w.keys['v'].SS58(), "idle", false), sig); err != nil {
		t.Errorf("the signature is not over the six lines: %v", err)
	}
	for _, at := range []string{"", "a time", "x=y"} {
		if out := get(at); out["signature_hex"] != nil {
			t.Errorf("signed %q: %v", at, out)
		}
	}
}
