package roles

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
)

// certificate makes a certificate for 127.0.0.1 and a client that trusts it.
func certificate(t *testing.T, dir string) (cert, key string, c *http.Client) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agon"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	c = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(c.CloseIdleConnections)
	return cert, key, c
}

// TestGatewayRole: agon gateway over TLS takes a signed request once, also
// when it comes again after a restart.
func TestGatewayRole(t *testing.T) {
	dir := t.TempDir()
	cert, key, web := certificate(t, dir)
	val, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	start := func() (url string, stop func()) {
		conf, err := config.Load(config.Env{Getenv: func(string) string { return "" }, Home: dir, Dir: dir}, map[string]string{config.Data: dir, config.Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan string, 1), make(chan error, 1)
		go func() {
			done <- gatewayRole(ctx, kinds.All(), cli.GatewayOptions{
				Common: cli.Common{Config: conf, Log: slog.New(slog.DiscardHandler), Say: func(string, ...any) {}},
				Allow:  []string{val.SS58()}, TLSCert: cert, TLSKey: key, Ready: func(url, _ string) { ready <- url },
			})
		}()
		select {
		case url = <-ready:
		case err := <-done:
			t.Fatal(err)
		}
		return url, func() { cancel(); <-done }
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
