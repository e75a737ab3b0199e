package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

const claimBody = `{"kinds":["fake"],"driver":"x","wait_ms":0}`

// Lease routes decode by hand: what they refuse has to be told as elsewhere.
func TestLeaseRefusals(t *testing.T) {
	f := start(t)
	for _, c := range []struct {
		name, path, body, field string
		status                  int
		spoil                   func(http.Header)
	}{
		{"no json", "/v1/leases", "{", "body", 400, nil},
		{"nothing", "/v1/leases", "", "body", 400, nil},
		{"two values", "/v1/leases", claimBody + "{}", "body", 400, nil},
		{"unknown field", "/v1/leases", `{"kinds":["fake"],"driver":"x","wait_ms":0,"more":1}`, "body.more", 422, nil},
		{"wrong type", "/v1/leases", `{"kinds":["fake"],"driver":7,"wait_ms":0}`, "body.driver", 422, nil},
		{"no object", "/v1/leases", `[]`, "body.", 422, nil},
		{"other type of body", "/v1/leases", claimBody, "Content-Type", 415, func(h http.Header) { h.Set("Content-Type", "text/plain") }},
		{"long id", "/v1/leases/" + strings.Repeat("a", 81) + "/heartbeat", `{"token":"x"}`, "path.id", 422, nil},
		{"no such lease", "/v1/leases/none/heartbeat", `{"token":"x"}`, "", 404, nil},
		{"no such lease for a result", "/v1/leases/none/result", `{"token":"x","fault":"","outcome":"ok","scores":[]}`, "", 404, nil},
		{"nested type", "/v1/leases/none/result", `{"token":"x","scores":[{"value":"high"}]}`, "body.scores.value", 422, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, p, _ := f.send(t, raw{method: "POST", path: c.path, body: []byte(c.body), key: f.val, spoil: c.spoil})
			if status != c.status || p.Field != c.field {
				t.Errorf("status %d, field %q (%s), want %d, %q", status, p.Field, p.Detail, c.status, c.field)
			}
		})
	}
}

// A claim records its nonce with what it takes, or alone where it took nothing
// or was refused: sent again it does nothing, even after a restart.
func TestLeaseNonces(t *testing.T) {
	f := &fixture{miner: key(t), val: key(t), stranger: key(t), operator: key(t)}
	dir := t.TempDir()
	open(t, dir, f)
	request := func(k *auth.Key) raw {
		return raw{method: "POST", path: "/v1/leases", body: []byte(claimBody), key: k, nonce: uuid.NewString(), at: time.Now()}
	}
	empty, refused, full := request(f.val), request(f.miner), request(f.val)
	if s, p, _ := f.send(t, empty); s != 204 {
		t.Fatalf("claim of an empty queue: %d %s", s, p.Detail)
	}
	if s, _, _ := f.send(t, refused); s != 403 {
		t.Fatalf("claim without permit: %d", s)
	}
	miner, err := client.New(f.url, f.miner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := miner.Submit(t.Context(), "arena-1", client.SubmitRequest{Name: "m", Licence: "MIT", Files: []client.File{{Path: "agent", Content: []byte("a")}}}); err != nil {
		t.Fatal(err)
	}
	// The same request many times at once: two runs wait, one may be taken.
	var mu sync.Mutex
	got := map[int]int{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, _, _ := f.send(t, full)
			mu.Lock()
			defer mu.Unlock()
			got[s]++
		})
	}
	wg.Wait()
	if got[200] != 1 || got[401] != 7 {
		t.Errorf("one claim sent 8 times at once: %v, want one 200 and seven 401", got)
	}
	for range 2 {
		for name, r := range map[string]raw{"of an empty queue": empty, "that was refused": refused, "that took a run": full} {
			if s, p, _ := f.send(t, r); s != 401 || p.Code != "replayed" {
				t.Errorf("claim %s again: %d %s, want 401 replayed", name, s, p.Code)
			}
		}
		open(t, dir, f)
	}
	val, err := client.New(f.url, f.val)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := val.Claim(context.Background(), client.ClaimRequest{Kinds: []string{"fake"}, Driver: "x"}); err != nil || l == nil || len(l.Arena.Tasks) != len(l.Run.Tasks) {
		t.Errorf("the other run: %+v, %v; want a lease that names its own tasks only", l, err)
	}
}
