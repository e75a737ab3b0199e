package webhook

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
)

type fixture struct {
	*Teller
	st  *store.Store
	now time.Time
	pub ed25519.PublicKey
}

func newFixture(t *testing.T, private bool) *fixture {
	t.Helper()
	st := teststore.Open(t, t.TempDir())
	t.Cleanup(func() { st.Close() })
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{st: st, now: time.Unix(1_800_000_000, 0), pub: pub}
	f.Teller = New(Config{Store: st, Key: key, Now: func() time.Time { return f.now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), AllowPrivate: private})
	return f
}

func (f *fixture) decide(t *testing.T, challenger, outcome string) {
	t.Helper()
	err := f.st.Write(context.Background(), func(tx *store.Tx) error {
		return tx.InsertDecision(agon.Decision{Arena: "a", Challenger: challenger, Outcome: outcome, Rule: "r", At: f.now})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// drain steps until nothing is left to do now.
func (f *fixture) drain(t *testing.T) {
	t.Helper()
	for {
		n, err := f.Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

type receiver struct {
	mu     sync.Mutex
	status int
	got    []http.Header
	bodies [][]byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got, r.bodies = append(r.got, q.Header), append(r.bodies, b)
	w.WriteHeader(r.status)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func TestTellsWhatHappened(t *testing.T) {
	f := newFixture(t, true)
	r := &receiver{status: 204}
	srv := httptest.NewServer(r)
	defer srv.Close()
	f.decide(t, "before", agon.TookSeat) // no hook is due
	if _, err := f.Add(t.Context(), srv.URL, []string{TypeSeat, TypeActed}); err != nil {
		t.Fatal(err)
	}
	f.decide(t, "one", agon.KeptSeat)
	f.decide(t, "two", agon.TookSeat)
	if err := f.st.Write(t.Context(), func(tx *store.Tx) error {
		return tx.LogAction(agon.OperatorAction{At: f.now, What: "ban", Target: "x", Reason: "why"})
	}); err != nil {
		t.Fatal(err)
	}
	f.drain(t)
	if r.count() != 2 {
		t.Fatalf("%d messages, want the seat and the act", r.count())
	}
	for i, h := range r.got {
		id, at, sig := h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature")
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sig, "v1a,"))
		if err != nil || !ed25519.Verify(f.pub, []byte(id+"."+at+"."+string(r.bodies[i])), raw) {
			t.Errorf("signature of %s", r.bodies[i])
		}
		var m struct{ Type, Timestamp string }
		if err := json.Unmarshal(r.bodies[i], &m); err != nil || m.Timestamp == "" || (m.Type != TypeSeat && m.Type != TypeActed) {
			t.Errorf("%s", r.bodies[i])
		}
	}
	f.drain(t)
	if r.count() != 2 {
		t.Error("messages were told twice")
	}
}

func TestRetriesAndGivesUp(t *testing.T) {
	f := newFixture(t, true)
	r := &receiver{status: 500}
	srv := httptest.NewServer(r)
	defer srv.Close()
	h, err := f.Add(t.Context(), srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.decide(t, "one", agon.KeptSeat)
	f.drain(t)
	f.drain(t) // not due again yet
	if r.count() != 1 {
		t.Fatalf("%d tries, want 1", r.count())
	}
	id := r.got[0].Get("webhook-id")
	for range waits {
		f.now = f.now.Add(30 * time.Hour)
		f.drain(t)
	}
	if r.count() != len(waits)+1 {
		t.Errorf("%d tries, want %d", r.count(), len(waits)+1)
	}
	for _, g := range r.got {
		if g.Get("webhook-id") != id {
			t.Error("a repetition has an id of its own")
		}
	}
	list, err := f.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Disabled == "" {
		t.Errorf("%+v %v, want it disabled", list, err)
	}
	if err := f.Remove(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
	var e *agon.Error
	if err := f.Remove(t.Context(), h.ID); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("%v", err)
	}
}

// A hook on a private address is never spoken to, and a redirect is a failure.
func TestGuard(t *testing.T) {
	r := &receiver{status: 200}
	srv := httptest.NewServer(r)
	defer srv.Close()
	f := newFixture(t, false)
	if _, err := f.Add(t.Context(), srv.URL, nil); err != nil {
		t.Fatal(err)
	}
	f.decide(t, "one", agon.KeptSeat)
	f.drain(t)
	if r.count() != 0 {
		t.Error("a private address was asked")
	}
	for _, bad := range []string{"ftp://x.example", "http://u:p@x.example/", "http:///x", strings.Repeat("x", 3000)} {
		if _, err := f.Add(t.Context(), bad, nil); err == nil {
			t.Errorf("%.40q was let in", bad)
		}
	}
	if _, err := f.Add(t.Context(), "https://x.example", []string{"all"}); err == nil {
		t.Error("an unknown type was let in")
	}
	g := newFixture(t, true)
	to := &receiver{status: 200}
	other := httptest.NewServer(to)
	defer other.Close()
	from := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	if _, err := g.Add(t.Context(), from.URL, nil); err != nil {
		t.Fatal(err)
	}
	g.decide(t, "one", agon.KeptSeat)
	g.drain(t)
	if to.count() != 0 {
		t.Error("a redirect was followed")
	}
}
