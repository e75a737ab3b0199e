package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

// push is a batch of two scripts and two claims as a platform of the seed sends it.
func push(id string) string {
	c, _ := json.Marshal(claims())
	return fmt.Sprintf(`{"batch_id":%q,"entrypoint":"evaluate_criterion","cutoff_at_iso":"2026-01-02T03:00:00Z","created_at_iso":"2026-01-02T03:00:00Z","claims":%s,
"candidates":[{"uid":1,"artifact_id":"aaaaaaaa-2222-4333-8444-555555555555","content_hash":%q,"size_bytes":3},{"uid":2,"artifact_id":"bbbbbbbb-2222-4333-8444-555555555555","content_hash":%q,"size_bytes":3}]}`, id, c, sha([]byte("one")), sha([]byte("two")))
}

func validatorOf(t *testing.T, w *world, dir string, play func(context.Context, Pair) (Result, error)) (*Validator, http.Handler) {
	t.Helper()
	v, err := NewValidator(ValidatorConfig{
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{Detail: true}}, Now: w.clock, Replay: replay{}, Members: w.net},
		Owner:    "cold-o", UID: 3, Dir: dir, Now: w.clock, Play: play,
		Fetch: func(_ context.Context, _, artifact string) ([]byte, error) {
			return []byte(map[byte]string{'a': "one", 'b': "two"}[artifact[0]]), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v, v.Handler(nil)
}

const route = "/validator/miner-task-batches/"

// A validator that is killed in the middle grades each pair once.
func TestValidatorKilled(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	var mu sync.Mutex
	graded := map[string]int{}
	ctx, kill := context.WithCancel(bg)
	play := func(c context.Context, p Pair) (Result, error) {
		mu.Lock()
		defer mu.Unlock()
		k := p.Candidate.ArtifactID + p.Claim.ClaimID
		if len(graded) == 1 && ctx.Err() == nil {
			kill() // in the middle of the second pair
			return Result{}, c.Err()
		}
		graded[k]++
		if p.Candidate.UID == 2 {
			return Result{ErrorCode: CodeInvocation, ErrorMessage: "raised"}, nil
		}
		return Result{Verdict: 1, Justification: "j", VerdictScore: .5}, nil
	}
	v, h := validatorOf(t, w, dir, play)
	const id = "99999999-2222-4333-8444-555555555555"
	status, out, raw := send(t, h, w.keys['o'], "POST", route+"batch", push(id))
	if status != 200 || out["status"] != "accepted" || out["caller"] != w.keys['o'].SS58() {
		t.Fatalf("%d %s", status, raw)
	}
	if _, out, _ := send(t, h, nil, "GET", "/validator/status", ""); out["status"] != "idle" || out["queued_batches"] != 1.0 {
		t.Errorf("status: %v", out)
	}
	v.Run(ctx)
	if _, out, _ := send(t, h, w.keys['o'], "GET", route+id+"/progress", ""); out["completed"] != 1.0 || len(out["miner_task_results"].([]any)) != 0 {
		t.Errorf("after the kill: %v", out)
	}
	v, h = validatorOf(t, w, dir, play)
	for v.step(bg) {
	}
	if len(graded) != 4 {
		t.Errorf("%d pairs were graded, want 4", len(graded))
	}
	for k, n := range graded {
		if n != 1 {
			t.Errorf("%s was graded %d times", k, n)
		}
	}
	_, out, raw = send(t, h, w.keys['o'], "GET", route+id+"/progress", "")
	list := out["miner_task_results"].([]any)
	if len(list) != 4 || out["total"] != 4.0 {
		t.Fatalf("%s", raw)
	}
	failed := 0
	for _, e := range list {
		x := e.(map[string]any)
		for _, k := range []string{"batch_id", "validator", "criterion_evaluation", "score", "usage", "session", "total_tool_usage"} {
			if x[k] == nil {
				t.Errorf("element lacks %s", k)
			}
		}
		if s := x["score"].(map[string]any); s["error_code"] == CodeInvocation {
			failed++
			if ce := x["criterion_evaluation"].(map[string]any); ce["verdict"] != -1.0 || ce["justification"] != "execution failed" || s["verdict_score"] != 0.0 {
				t.Errorf("failure row: %v", x)
			}
		}
	}
	if failed != 2 {
		t.Errorf("%d failure rows, want 2", failed)
	}
}

func TestValidatorRefuses(t *testing.T) {
	w := newWorld(t)
	_, h := validatorOf(t, w, t.TempDir(), func(context.Context, Pair) (Result, error) { return Result{}, errors.New("never") })
	const id = "99999999-2222-4333-8444-555555555555"
	good := push(id)
	for _, c := range []struct {
		name, body string
		key        byte
		status     int
	}{
		{"not the owner", good, 'a', 401},
		{"unknown", good, 'x', 401},
		{"long spellings missing", strings.NewReplacer("cutoff_at_iso", "cut", "created_at_iso", "cre").Replace(good), 'o', 422},
		{"short spellings", strings.NewReplacer("cutoff_at_iso", "cutoff_at", "created_at_iso", "created_at").Replace(good), 'o', 200},
		{"bad uuid", strings.Replace(good, id, "x", 1), 'o', 422},
		{"other entrypoint", strings.Replace(good, "evaluate_criterion", "query", 1), 'o', 422},
		{"claim twice", strings.Replace(good, "6ba7b811", "6ba7b810", 1), 'o', 422},
		{"bare options", strings.ReplaceAll(strings.ReplaceAll(good, `{"options":[`, `[`), `"description":"Pass"}]}`, `"description":"Pass"}]`), 'o', 200},
		{"odd scale", strings.Replace(good, `"value":1,`, `"value":7,`, 1), 'o', 422},
		{"not json", "{", 'o', 422},
		{"wrong type", `{"batch_id":1}`, 'o', 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, _, raw := send(t, h, w.keys[c.key], "POST", route+"batch", c.body); status != c.status {
				t.Errorf("%d %s, want %d", status, raw, c.status)
			} else if status == 401 && !bytes.Contains(raw, []byte(`{"detail":"`)) {
				t.Errorf("401 body %s", raw)
			}
		})
	}
}

// A script that is not what it should be fails its own pairs, and our failures are tried again.
func TestValidatorOwnership(t *testing.T) {
	w := newWorld(t)
	v, _ := validatorOf(t, w, t.TempDir(), nil2)
	calls := 0
	v.cfg.Play = func(context.Context, Pair) (Result, error) {
		if calls++; calls < 3 {
			return Result{}, errors.New("no box")
		}
		return Result{Verdict: 1, Justification: "j"}, nil
	}
	if r := v.pair(bg, Pair{}); r.ErrorCode != "" || calls != 3 {
		t.Errorf("%+v after %d calls", r, calls)
	}
	calls = -100
	if r := v.pair(bg, Pair{}); r.ErrorCode != CodeStart {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]Candidate{"hash": {ArtifactID: "a", ContentHash: sha([]byte("other"))}, "size": {ArtifactID: "c", ContentHash: sha(nil)}} {
		if _, bad := v.stage(bg, "b", c); bad == nil || bad.ErrorCode != CodeUnavailable {
			t.Errorf("%s: %+v", name, bad)
		}
	}
}

// A script over the limit spoils its own pairs, one of the largest size is staged, and so is
// the same script for many at once.
func TestValidatorStages(t *testing.T) {
	w := newWorld(t)
	v, _ := validatorOf(t, w, t.TempDir(), nil2)
	large := bytes.Repeat([]byte("#"), MaxScript+1)
	v.cfg.Fetch = func(_ context.Context, _, artifact string) ([]byte, error) {
		if artifact == "over" {
			return large, nil
		}
		return bytes.Clone(large[:MaxScript]), nil
	}
	if b, bad := v.stage(bg, "b", Candidate{ArtifactID: "over", ContentHash: sha(large)}); b != nil || bad == nil || bad.ErrorCode != CodeUnavailable || !strings.Contains(bad.ErrorMessage, "256001 bytes") {
		t.Errorf("%d bytes, %+v", len(b), bad)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if b, bad := v.stage(bg, "b", Candidate{ArtifactID: "most", ContentHash: sha(large[:MaxScript])}); bad != nil || len(b) != MaxScript {
				t.Errorf("%d bytes, %+v", len(b), bad)
			}
		})
	}
	all.Wait()
}

func nil2(context.Context, Pair) (Result, error) { return Result{}, nil }
