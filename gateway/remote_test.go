package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/gateway/provider"
)

func remoteGateway(t *testing.T, allowed ...string) (*Gateway, string) {
	t.Helper()
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Books: durable(t, openStore(t, filepath.Join(t.TempDir(), "b.db")))})
	k := NewControl(ControlConfig{
		Gateway:  g,
		Verifier: &auth.Verifier{Audience: "agon:test", Now: time.Now, Replay: auth.NewMemoryReplay(time.Now)},
		Authorize: func(_ context.Context, hotkey string, p Policy) (Policy, error) {
			for _, a := range allowed {
				if a == hotkey {
					p.Budget = agon.Budget{Micros: 50, Calls: 2} // the platform's word, not the validator's
					return p, nil
				}
			}
			return p, &agon.Error{Code: "not_authorised", Status: 403, Message: "no"}
		},
	})
	srv := httptest.NewServer(k)
	t.Cleanup(func() { srv.Close(); k.Close() })
	return g, srv.URL
}

// A session at a gateway elsewhere is like one at home: calls, events,
// receipts under its key; the budget is what the gateway's side says.
func TestRemote(t *testing.T) {
	key, err := auth.KeyFromURI("//Validator")
	if err != nil {
		t.Fatal(err)
	}
	g, url := remoteGateway(t, key.SS58())
	r, err := Dial(t.Context(), url+"/", key, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Info().Signer != g.Signer() || len(r.Info().Models) == 0 {
		t.Errorf("info %+v", r.Info())
	}
	p := policy("m")
	p.Budget = agon.Budget{Micros: 1 << 40, Calls: 1 << 20}
	var l log
	s, err := r.Open(t.Context(), p, &l)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(hello, "{", `{"max_tokens":5,`, 1)
	var got []int
	for range 3 {
		got = append(got, post(t, s, chatPath, body).status)
	}
	if got[0] != 200 || got[2] != 429 {
		t.Errorf("statuses %v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if n := len(l.of(agon.EventModel)); n == 0 || n != len(s.Receipts()) || len(l.of(agon.EventRefused)) == 0 {
		t.Errorf("%d events, %d receipts", n, len(s.Receipts()))
	}
	if c := VerifyChain(s.Receipts(), []string{g.Signer()}); len(c.Problems) > 0 || c.Cost != s.Spent() || s.Spent() == 0 {
		t.Errorf("chain %+v spent %d", c, s.Spent())
	}
	if s.Evidence().Calls == 0 {
		t.Errorf("evidence %+v", s.Evidence())
	}
	if rep := post(t, s, chatPath, body); rep.status != 401 {
		t.Errorf("after close: %d", rep.status)
	}
}

func TestRemoteRefuses(t *testing.T) {
	good, _ := auth.KeyFromURI("//Validator")
	stranger, _ := auth.KeyFromURI("//Stranger")
	_, url := remoteGateway(t, good.SS58())
	bad, err := Dial(t.Context(), url, stranger, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	var e *agon.Error
	if _, err := bad.Open(t.Context(), policy("m"), nil); !errors.As(err, &e) || e.Status != 403 {
		t.Errorf("stranger: %v", err)
	}
	fine, err := Dial(t.Context(), url, good, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fine.Open(t.Context(), policy("m"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := bad.call(t.Context(), "POST", controlSessions+"/"+s.ID()+"/close", struct{}{}, &ended{}); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("another's session: %v", err)
	}
	late, err := Dial(t.Context(), url, good, func() time.Time { return time.Now().Add(-time.Hour) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Open(t.Context(), policy("m"), nil); !errors.As(err, &e) || e.Status != 401 {
		t.Errorf("stale: %v", err)
	}
	p := policy("m")
	p.Dialects = []string{"x"}
	if _, err := fine.Open(t.Context(), p, nil); !errors.As(err, &e) || e.Status != 422 {
		t.Errorf("bad policy: %v", err)
	}
	for _, u := range []string{"", "ftp://h", "http://u:p@h", "http://127.0.0.1:1"} {
		if _, err := Dial(t.Context(), u, good, time.Now, nil); err == nil {
			t.Errorf("dialled %q", u)
		}
	}
}

// A validator that falls silent leaves nothing open.
func TestRemoteForgets(t *testing.T) {
	key, _ := auth.KeyFromURI("//Validator")
	st := openStore(t, filepath.Join(t.TempDir(), "b.db"))
	g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Books: durable(t, st)})
	k := NewControl(ControlConfig{
		Gateway: g, IdleFor: 50 * time.Millisecond,
		Verifier:  &auth.Verifier{Audience: "agon:test", Now: time.Now, Replay: auth.NewMemoryReplay(time.Now)},
		Authorize: func(_ context.Context, _ string, p Policy) (Policy, error) { return p, nil },
	})
	srv := httptest.NewServer(k)
	defer srv.Close()
	r, err := Dial(t.Context(), srv.URL, key, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	var o opened
	if err := r.call(t.Context(), "POST", controlSessions, policy("m"), &o); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	l := k.open[o.ID]
	k.mu.Unlock()
	for {
		_, news := l.log.take(0)
		if p, _ := l.log.take(0); p.Closed {
			break
		}
		<-news
	}
	if left, err := st.OpenBooks(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("open: %+v %v", left, err)
	}
}
