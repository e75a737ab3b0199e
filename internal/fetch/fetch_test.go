package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

func code(err error) string {
	var e *agon.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err == nil {
		return ""
	}
	return "other"
}

func TestGet(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	done := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/json" {
			w.WriteHeader(500)
		}
		_, _ = w.Write([]byte("{}"))
	})
	mux.HandleFunc("/limit", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10)) })
	mux.HandleFunc("/over", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10+1)) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-done:
		}
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/once", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	mux.HandleFunc("/201", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) })
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(done)
	c := New(Config{AllowPrivate: true, Timeout: 2 * time.Second})
	for path, want := range map[string]string{
		"/ok": "", "/limit": "", "/once": "", "/over": "too_large", "/endless": "too_large", "/slow": "timeout", "/loop": "too_many_redirects",
		"/file": "bad_url", "/bomb": "encoded", "/201": "bad_status", "/404": "bad_status",
	} {
		if _, err := c.Get(t.Context(), s.URL+path); code(err) != want {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	// A private address is refused whatever it is called, also behind a redirect.
	guarded := New(Config{})
	for _, u := range []string{s.URL + "/ok", strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/ok", "http://[::1]:1/", "http://[::ffff:127.0.0.1]:1/", "http://169.254.169.254/latest", "http://0x7f.1:1/", "http://10.0.0.1/"} {
		if _, err := guarded.Get(t.Context(), u); err == nil || code(err) != "private_address" && code(err) != "other" {
			t.Errorf("%s: %v", u, err)
		}
	}
	for _, u := range []string{"", "ftp://a/b", "http://", "http://user@a.example/", "/x", "http://a.example/#f", "http://a.example/" + strings.Repeat("x", 3000)} {
		if _, err := guarded.Get(t.Context(), u); code(err) != "bad_url" {
			t.Errorf("%q: %v", u, err)
		}
	}
}

func TestPublic(t *testing.T) {
	for s, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true, "127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.1.1": false,
		"100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "::1": false, "::": false, "fe80::1": false, "fc00::1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "::10.0.0.1": false, "198.18.0.1": false, "ff02::1": false,
	} {
		if Public(netip.MustParseAddr(s)) != want {
			t.Errorf("%s: %t", s, !want)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func FuzzCheckURL(f *testing.F) {
	f.Add("http://a.example/x")
	f.Add("http://[::1%25eth0]/")
	f.Fuzz(func(_ *testing.T, s string) { _ = CheckURL(s) })
}
