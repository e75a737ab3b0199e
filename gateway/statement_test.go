package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/gateway/provider"
)

// An attempt that is closed stays closed, also through a restart, and its
// statement is the same each time.
func TestSeal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.db")
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	st := openStore(t, path)
	open := func() *Books {
		b, err := NewBooks(t.Context(), BooksConfig{Journal: st, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Books: open()})
	s, err := g.Open(t.Context(), policy("m"), nil)
	if err != nil {
		t.Fatal(err)
	}
	post(t, s, chatPath, hello)
	post(t, s, chatPath, hello)
	one, err := g.Seal(t.Context(), "run-1", 2) // closes the session itself
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckStatement(one, "run-1", 2, s.Receipts(), []string{g.Signer()}); err != nil || one.Calls != 2 || one.Cost == 0 {
		t.Errorf("%v: %+v", err, one)
	}
	if got := post(t, s, chatPath, hello); got.status != 401 {
		t.Errorf("a call after the close: %d", got.status)
	}
	if _, err := g.Open(t.Context(), policy("m"), nil); !errors.Is(err, errSealed) {
		t.Errorf("a session after the close: %v", err)
	}
	later := policy("m")
	later.Attempt = 3
	if s, err := g.Open(t.Context(), later, nil); err != nil {
		t.Errorf("the next attempt: %v", err)
	} else if _, err := g.Books().Seal(t.Context(), "run-1", 3); !errors.Is(err, errSessionsOpen) {
		t.Errorf("closed over an open session: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
	after := open()
	two, err := after.Seal(t.Context(), "run-1", 2)
	if err != nil || *two != *one {
		t.Errorf("%v: %+v after a restart, %+v before", err, two, one)
	}
	if _, err := after.open(t.Context(), "run-1", 2, "run-1/2/run", agon.Budget{Calls: 1}); !errors.Is(err, errSealed) {
		t.Errorf("an account after a restart: %v", err)
	}
	none, err := after.Seal(t.Context(), "quiet", 1)
	if err != nil || CheckStatement(none, "quiet", 1, nil, []string{g.Signer()}) != nil || none.Calls != 0 || none.Head != "" {
		t.Errorf("%v: %+v", err, none)
	}
}

// There are two payers and no others.
func TestPayers(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}})
	for payer, ok := range map[string]bool{"": true, "run": true, "platform": true, "x": false, "Run": false, "run ": false, "judge": false} {
		p := policy("m")
		p.Payer = payer
		s, err := g.Open(t.Context(), p, nil)
		if (err == nil) != ok {
			t.Errorf("payer %q: %v", payer, err)
		}
		if s != nil {
			s.Close()
		}
	}
}

// A session ends with its lease, though its validator goes on asking.
func TestSessionEndsWithLease(t *testing.T) {
	key, err := auth.KeyFromURI("//Validator")
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Bool
	asked := make(chan struct{}, 100)
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}})
	k := NewControl(ControlConfig{
		Gateway: g, Recheck: time.Millisecond,
		Verifier: &auth.Verifier{Audience: "agon:test", Now: time.Now, Replay: auth.NewMemoryReplay(time.Now)},
		Authorize: func(_ context.Context, _ string, p Policy) (Policy, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			if lost.Load() {
				return p, &agon.Error{Code: "not_authorised", Status: 403, Message: "the lease is lost"}
			}
			return p, nil
		},
		Seal: func(_ context.Context, _, run string, _ int) error {
			if run != "run-1" {
				return &agon.Error{Code: "not_authorised", Status: 403, Message: "not yours"}
			}
			return nil
		},
	})
	srv := httptest.NewServer(k)
	defer srv.Close()
	defer k.Close()
	r, err := Dial(t.Context(), srv.URL, key, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Open(t.Context(), policy("m"), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	<-asked // it is asked again while the session lives
	if got := post(t, s, chatPath, hello); got.status != 200 {
		t.Fatalf("while the lease lives: %d", got.status)
	}
	lost.Store(true)
	<-s.(*remoteSession).drained // the gateway said that nothing more comes
	if got := post(t, s, chatPath, hello); got.status != 401 {
		t.Errorf("after the lease: %d", got.status)
	}
	if err := s.Close(); err != nil || len(s.Receipts()) != 1 {
		t.Errorf("what it left: %v, %d receipts", err, len(s.Receipts()))
	}
	st, err := r.Seal(t.Context(), "run-1", 2)
	if err != nil || CheckStatement(st, "run-1", 2, s.Receipts(), []string{g.Signer()}) != nil {
		t.Errorf("%v: %+v", err, st)
	}
	if _, err := r.Seal(t.Context(), "another", 1); err == nil || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("another's attempt: %v", err)
	}
}
