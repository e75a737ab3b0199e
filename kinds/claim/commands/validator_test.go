package commands

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds/claim/signin"
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
