package roles

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/certs"
)

// pki is an operator's authority, and what it issues for a test.
type pki struct {
	t         *testing.T
	dir       string
	authority *certs.Authority
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir()}
	a, pem, _, err := certs.NewAuthority("fleet", p.life())
	if err != nil {
		t.Fatal(err)
	}
	p.authority = a
	p.write("ca.pem", pem)
	return p
}

func (p *pki) life() certs.Life {
	return certs.Life{From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
}

func (p *pki) write(name string, b []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// issue makes the files of a certificate, anew where they are there.
func (p *pki) issue(name string, hosts ...string) certs.Files {
	p.t.Helper()
	cert, key, err := p.authority.Issue(name, hosts, p.life())
	if err != nil {
		p.t.Fatal(err)
	}
	return certs.Files{Cert: p.write(name+".pem", cert), Key: p.write(name+"-key.pem", key), CA: filepath.Join(p.dir, "ca.pem")}
}

// server is a listener's end that checks clients' certificates.
func (p *pki) server(hosts ...string) *certs.Server {
	p.t.Helper()
	s, err := certs.OpenServer(p.issue("server", hosts...), slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// client is a caller's end; "" has no certificate.
func (p *pki) client(name string) *certs.Client {
	p.t.Helper()
	files := certs.Files{CA: filepath.Join(p.dir, "ca.pem")}
	if name != "" {
		files = p.issue(name)
	}
	c, err := certs.OpenClient(files, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *pki) http(over *certs.Client) *http.Client {
	p.t.Helper()
	tr, err := over.Transport()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// A server over TLS: browsers stay there, and only a server with a certificate passes
// requests on to it.
func TestServeTLS(t *testing.T) {
	p := newPKI(t)
	o := testOptions(t.TempDir())
	o.TLS = p.server("127.0.0.1")
	s, err := openServer(t.Context(), o, o.Kinds(""))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.openNear(); err != nil {
		t.Fatal(err)
	}
	s.gate.open.Store(true)
	get := func(c *http.Client, url, passed string) (int, http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/server", nil)
		if err != nil {
			t.Fatal(err)
		}
		if passed != "" {
			req.Header.Set(headerPassed, passed)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
	stranger, own := p.http(p.client("")), p.http(p.client("server-2"))
	if code, h := get(stranger, s.URL(), ""); code != http.StatusOK || !strings.HasPrefix(s.URL(), "https://") || h.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s: %d %v", s.URL(), code, h)
	}
	if code, _ := get(stranger, s.URL(), "1"); code != http.StatusForbidden {
		t.Errorf("a stranger passes a request on: %d", code)
	}
	if code, _ := get(own, s.URL(), "1"); code != http.StatusOK {
		t.Errorf("a server passes a request on: %d", code)
	}
	if code, _ := get(http.DefaultClient, s.Near(), ""); code != http.StatusOK || !strings.HasPrefix(s.Near(), "http://127.0.0.1:") {
		t.Errorf("near, at %s: %d", s.Near(), code)
	}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}}
	if _, err := old.Get(s.URL() + "/livez"); err == nil {
		t.Error("TLS 1.1 is spoken")
	}

	f, _ := openTestFollower(t, s.URL(), nil, p.client("server-2"))
	pass := func() int {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/server", nil))
		return w.Code
	}
	if code := pass(); code != http.StatusOK {
		t.Errorf("a follower passes on: %d", code)
	}
	f.leader.base = p.http(p.client("")).Transport.(*http.Transport)
	if code := pass(); code != http.StatusForbidden {
		t.Errorf("a follower without a certificate passes on: %d", code)
	}
	f.leader.base = http.DefaultTransport.(*http.Transport)
	if code := pass(); code != http.StatusServiceUnavailable {
		t.Errorf("a follower that does not know the authority passes on: %d", code)
	}
}
