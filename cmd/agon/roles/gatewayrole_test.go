package roles

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
)

// startGateway runs agon gateway until stop, for one validator and without a platform.
func startGateway(t *testing.T, dir string, from *certs.Server, validator string) (url, signer string, stop func()) {
	t.Helper()
	conf, err := config.Load(config.Env{Getenv: func(string) string { return "" }, Home: dir, Dir: dir}, map[string]string{config.Data: dir, config.Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan [2]string, 1), make(chan error, 1)
	go func() {
		done <- gatewayRole(ctx, kinds.All(), cli.GatewayOptions{
			Common: cli.Common{Config: conf, Log: slog.New(slog.DiscardHandler), Say: func(string, ...any) {}, TLS: from},
			Allow:  []string{validator}, Ready: func(url, signer string) { ready <- [2]string{url, signer} },
		})
	}()
	select {
	case at := <-ready:
		return at[0], at[1], func() { cancel(); <-done }
	case err := <-done:
		t.Fatal(err)
	}
	panic("not reached")
}

// TestGatewayRole: agon gateway over mutual TLS takes a signed request once, also
// when it comes again after a restart. Doors reach it by the validator's relay.
func TestGatewayRole(t *testing.T) {
	dir := t.TempDir()
	p := newPKI(t)
	from, over := p.server("127.0.0.1"), p.client("val-1")
	web := p.http(over)
	val, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	start := func() (url string, stop func()) {
		url, _, stop = startGateway(t, dir, from, val.SS58())
		return url, stop
	}
	url, stop := start()
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("serves %s", url)
	}
	info := func(url string) gateway.Info {
		resp, err := web.Get(url + "/gateway/v1/info")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var i gateway.Info
		if err := json.NewDecoder(resp.Body).Decode(&i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	body := []byte(`{"Run":"r","Attempt":1,"Models":["*"],"Dialects":["openai"],"Budget":{"micros":1000,"calls":1}}`)
	checkPrivate(t, filepath.Join(dir, "gateway"))
	signed := http.Header{}
	post := func(url string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/gateway/v1/sessions", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if len(signed) == 0 {
			if err := auth.SignRequest(req, body, val, info(url).Audience, time.Now()); err != nil {
				t.Fatal(err)
			}
			signed = req.Header.Clone()
		}
		req.Header = signed.Clone()
		req.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	if code, b := post(url); code != http.StatusOK {
		t.Fatalf("open: %d %s", code, b)
	}
	signer := info(url).Signer
	stop()
	url, stop = start()
	defer stop()
	if code, b := post(url); code != http.StatusUnauthorized || !strings.Contains(b, "replayed") {
		t.Errorf("the same request after a restart: %d %s", code, b)
	}
	if got := info(url).Signer; got != signer {
		t.Errorf("it signs as %s after a restart, as %s before", got, signer)
	}

	g := &gateways{key: val, over: over}
	defer g.close()
	s, err := g.Open(t.Context(), gateway.Policy{At: url, Key: signer, Run: "r2", Attempt: 1, Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI}, Budget: agon.Budget{Micros: 1000, Calls: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for path, want := range map[string]int{"/v1/models": http.StatusOK, "/gateway/v1/info": http.StatusNotFound, "/x/../gateway/v1/info": http.StatusNotFound, "/%67ateway/v1/info": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.BaseURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range s.Header() {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s by the relay: %d, want %d", path, resp.StatusCode, want)
		}
	}
	bare := &gateways{key: val, over: p.client("")}
	if _, err := bare.Open(t.Context(), gateway.Policy{At: url, Key: signer}, nil); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestNonceGuardForgets: what no request can use any more is not kept.
func TestNonceGuardForgets(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "n.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(1_800_000_000, 0)
	g := &nonceGuard{store: s, now: func() time.Time { return now }}
	use := func(n string) bool {
		fresh, err := g.Seen(t.Context(), "agon-v1", "k", n, now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	if !use("a") || use("a") {
		t.Error("a nonce is not fresh once")
	}
	now = now.Add(2 * time.Minute)
	if !use("b") || !use("a") || use("b") {
		t.Error("the guard does not forget what is over, or forgets what is not")
	}
}
