package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var discard = slog.New(slog.DiscardHandler)

func life(d time.Duration) Life {
	return Life{From: time.Now().Add(-time.Hour), Until: time.Now().Add(d)}
}

// files writes an authority and a certificate of it.
func files(t *testing.T, hosts ...string) (*Authority, Files) {
	t.Helper()
	dir := t.TempDir()
	a, ca, _, err := NewAuthority("fleet", life(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Issue("one", hosts, life(48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f := Files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
	for path, b := range map[string][]byte{f.Cert: cert, f.Key: key, f.CA: ca} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a, f
}

func TestOpenRefuses(t *testing.T) {
	_, f := files(t)
	for want, x := range map[string]Files{
		"its key is missing":         {Cert: f.Cert},
		"its certificate is missing": {Key: f.Key},
		"no such file":               {Cert: f.Cert + "x", Key: f.Key},
		"failed to find":             {Cert: f.Key, Key: f.Key},
		"over TLS only":              {CA: f.CA},
		"certificates only":          {Cert: f.Cert, Key: f.Key, CA: f.Key},
	} {
		if _, err := OpenServer(x, discard, time.Now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", x, err, want)
		}
	}
	if s := (*Server)(nil); s.On() || s.Mutual() || s.Scheme() != "http" {
		t.Error("nil serves TLS")
	}
	if c := (*Client)(nil); c.Own() || c.Shows() {
		t.Error("nil has certificates")
	}
}

// A transport reaches servers of both authorities while one follows the other.
func TestNewAuthority(t *testing.T) {
	_, old := files(t, "127.0.0.1")
	_, next := files(t, "127.0.0.1")
	c, err := OpenClient(Files{CA: old.CA}, discard, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := c.Transport()
	if err != nil {
		t.Fatal(err)
	}
	defer tr.CloseIdleConnections()
	get := func(of Files) error {
		s, err := OpenServer(Files{Cert: of.Cert, Key: of.Key}, discard, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(http.NotFoundHandler())
		srv.Listener = s.Listener(srv.Listener, false)
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		srv.Start()
		defer srv.Close()
		resp, err := (&http.Client{Transport: tr}).Get("https://" + srv.Listener.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(old); err != nil {
		t.Error(err)
	}
	if err := get(next); err == nil {
		t.Error("an authority that was not named is believed")
	}
	a, err := os.ReadFile(old.CA)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(next.CA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old.CA, append(a, b...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Files{old, next} {
		if err := get(f); err != nil {
			t.Errorf("with both: %v", err)
		}
	}
}

// What an authority issues ends with it, and serves only where it has hosts.
func TestIssue(t *testing.T) {
	a, f := files(t)
	p, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	if p.Leaf.NotAfter.After(a.cert.NotAfter) || len(p.Leaf.ExtKeyUsage) != 1 {
		t.Errorf("until %s, usage %v", p.Leaf.NotAfter, p.Leaf.ExtKeyUsage)
	}
	// One certificate for servers whose names begin with their pods'.
	pem, key, err := a.Issue("server", []string{"*.peers.agon.svc"}, life(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if p, err = tls.X509KeyPair(pem, key); err != nil || p.Leaf.VerifyHostname("server-1.peers.agon.svc") != nil || p.Leaf.VerifyHostname("a.server-1.peers.agon.svc") == nil {
		t.Errorf("%v, for %v", err, p.Leaf.DNSNames)
	}
	for _, host := range []string{"", "a b", "a/b", "a:1", "u@h"} {
		if _, _, err := a.Issue("x", []string{host}, life(time.Hour)); err == nil {
			t.Errorf("host %q is taken", host)
		}
	}
	for _, name := range []string{"", " a", "a\n", "a,b", "ä", strings.Repeat("a", 65)} {
		if _, _, err := a.Issue(name, nil, life(time.Hour)); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	cn := asn1.ObjectIdentifier{2, 5, 4, 3}
	for name, want := range map[string][]pkix.AttributeTypeAndValue{
		"one name":  {{Type: cn, Value: "val-1"}},
		"no name":   nil,
		"two names": {{Type: cn, Value: "val-1"}, {Type: cn, Value: "val-2"}},
		"a number":  {{Type: cn, Value: 5}},
	} {
		got, err := Owner(&x509.Certificate{Subject: pkix.Name{Names: want}})
		if (err == nil) != (name == "one name") || err == nil && got != "val-1" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func FuzzAuthorities(f *testing.F) {
	_, ca, _, err := NewAuthority("fleet", life(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ca)
	f.Add(bytes.Repeat(ca, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := authorities(b); (err == nil) != (len(list) > 0) {
			t.Fatalf("%d certificates, %v", len(list), err)
		}
	})
}
