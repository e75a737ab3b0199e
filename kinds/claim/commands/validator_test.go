package commands

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/claim/wire"
)

func TestSeedPlatform(t *testing.T) {
	key, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), `sig="`)
		sig, _ := hex.DecodeString(strings.TrimSuffix(rest, `"`))
		pub, _ := auth.ParseSS58(key.SS58())
		if auth.VerifyPublic(auth.Sr25519, pub, signin.Message(r.Method, r.URL.RequestURI(), b.Bytes()), sig) != nil {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		got = append(got, r.Method+" "+r.URL.Path)
		_, _ = w.Write([]byte("script"))
	}))
	defer srv.Close()
	p, err := newSeedPlatform(srv.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := p.fetch(t.Context(), "b", "a"); err != nil || string(b) != "script" || got[0] != "GET /v1/miner-task-batches/b/artifacts/a" {
		t.Errorf("%v %q %v", err, b, got)
	}
	body, _ := json.Marshal(map[string]string{"base_url": "http://v"})
	if _, err := p.send(t.Context(), "POST", "/v1/validators/register", body, 100); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"ftp://x", "https://u@x", "https://x/path", "x", "https://x?y"} {
		if _, err := newSeedPlatform(bad, key); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// What a platform says of weights is read whole or not at all.
func TestReadWeights(t *testing.T) {
	got, err := readWeights([]byte(`{"weights":{"0":0.4,"12":0.6},"champion_uid":12,"final_top":[12,null,null]}`))
	if err != nil || len(got) != 2 || got[12] != 0.6 {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"weights":{}}`, `{"weights":{"-1":1}}`, `{"weights":{"70000":1}}`, `{"weights":{"x":1}}`, `{"weights":{"1":-1}}`, `{"weights":{"1":"1"}}`, `{"weights":{"1":1e999}}`} {
		if got, err := readWeights([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

// A validator is ready once the platform knows of it.
func TestRegistered(t *testing.T) {
	key, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	status, asked := http.StatusForbidden, make(chan bool)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		asked <- true
	}))
	defer srv.Close()
	p, err := newSeedPlatform(srv.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	if p.ready() != wire.WaitingForRegistration {
		t.Errorf("before: %q", p.ready())
	}
	for _, c := range []struct {
		status int
		want   string
	}{{http.StatusForbidden, wire.RegistrationFailed}, {http.StatusOK, ""}} {
		status = c.status
		ctx, stop := context.WithCancel(t.Context())
		done, failed := make(chan bool), make(chan error, 1)
		go func() { p.register(ctx, "http://v", func(err error) { failed <- err }); close(done) }()
		<-asked
		if c.want != "" {
			<-failed
		} else {
			for p.ready() != "" {
				runtime.Gosched()
			}
		}
		stop()
		<-done
		if p.ready() != c.want {
			t.Errorf("answered %d: %q", c.status, p.ready())
		}
	}
}
