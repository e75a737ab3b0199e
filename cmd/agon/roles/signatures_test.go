package roles

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

// A request of the API may be signed as the Bittensor SDK from 11 does it: for the
// operator's hotkey, over all that it says, lately, once.
func TestBittensorSignatures(t *testing.T) {
	at := time.Unix(1_700_000_000, 5)
	now := func() time.Time { return at }
	v := &auth.Verifier{Audience: "a", Replay: auth.NewMemoryReplay(now), Now: now}
	key := func(uri string) *auth.Key {
		k, err := auth.KeyFromURI(uri)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	operator, miner := key("//operator"), key("//miner")
	s := signatures{v, v, operator.SS58()}
	body := []byte(`{"name":"x"}`)
	sign := func(receiver string, when time.Time) http.Header {
		h, err := dialect.SignBTAuth(miner, "POST", "/v1/arenas/a/submissions?x=1", body, receiver, when)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	ask := func(h http.Header, method, target string, body []byte) (string, error) {
		if claimed, err := s.CheckHeaders(method, h); err != nil || claimed != miner.SS58() {
			return claimed, err
		}
		return s.VerifyRequest(t.Context(), method, target, h, body)
	}
	good := sign(operator.SS58(), at)
	for name, c := range map[string]struct {
		h      http.Header
		method string
		target string
		body   []byte
	}{
		"another receiver": {sign(miner.SS58(), at), "POST", "/v1/arenas/a/submissions?x=1", body},
		"no receiver":      {sign("", at), "POST", "/v1/arenas/a/submissions?x=1", body},
		"old":              {sign(operator.SS58(), at.Add(-11*time.Second)), "POST", "/v1/arenas/a/submissions?x=1", body},
		"ahead":            {sign(operator.SS58(), at.Add(3*time.Second)), "POST", "/v1/arenas/a/submissions?x=1", body},
		"another method":   {good, "PUT", "/v1/arenas/a/submissions?x=1", body},
		"another path":     {good, "POST", "/v1/arenas/b/submissions?x=1", body},
		"another query":    {good, "POST", "/v1/arenas/a/submissions?x=2", body},
		"another body":     {good, "POST", "/v1/arenas/a/submissions?x=1", bytes.ToUpper(body)},
	} {
		_, err := ask(c.h, c.method, c.target, c.body)
		var e *agon.Error
		if !errors.As(err, &e) || e.Status != http.StatusUnauthorized || e.Message == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := ask(good, "POST", "/v1/arenas/a/submissions?x=1", body); err != nil || got != miner.SS58() {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask(good, "POST", "/v1/arenas/a/submissions?x=1", body); err == nil {
		t.Error("it was taken twice")
	}
	both := maps.Clone(sign(operator.SS58(), at.Add(time.Second)))
	both.Set(auth.HeaderHotkey, operator.SS58())
	if got, err := ask(both, "POST", "/v1/arenas/a/submissions?x=1", body); err == nil {
		t.Errorf("marks of both: %q", got)
	}
}
