package search

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
)

func TestHTTP(t *testing.T) {
	const key = "sk-search-0123456789"
	for _, c := range []struct {
		name  string
		h     http.HandlerFunc
		want  string
		class provider.Class
	}{
		{"hits", func(w http.ResponseWriter, r *http.Request) {
			if b, _ := io.ReadAll(r.Body); string(b) != `{"num":10,"query":"x"}` || r.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("asked %s", b)
			}
			_, _ = io.WriteString(w, `{"data":[{"link":"javascript:1"},{"link":"https://a/","snippet":"\u001b[31mred","title":"`+strings.Repeat("t", 999)+`"}]}`)
		}, `{"data":[{"link":"https://a/","snippet":"red","title":"` + strings.Repeat("t", 300) + `"}]}`, ""},
		{"429", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "", provider.ClassRateLimit},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1", http.StatusFound)
		}, "", provider.ClassBadReply},
		{"html", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "", provider.ClassBadReply},
		{"echo of the key", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[],"k":"`+key+`"}`) }, "", provider.ClassBadReply},
		{"cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", provider.ClassServer},
		{"10 GB", func(w http.ResponseWriter, _ *http.Request) {
			for range 10 << 10 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "", provider.ClassBadReply},
	} {
		srv := httptest.NewServer(c.h)
		h, err := NewHTTP("seeker", srv.URL, key)
		if err != nil {
			t.Fatal(err)
		}
		tl := New(h, tool.Price{})
		r, err := tl.Do(t.Context(), Query{Terms: []string{"x"}, Num: 10})
		var f *provider.Failure
		if c.class == "" {
			if err != nil || string(r.Body) != c.want {
				t.Errorf("%s: %s %v", c.name, r.Body, err)
			}
		} else if !errors.As(err, &f) || f.Class != c.class || strings.Contains(f.Detail, key) {
			t.Errorf("%s: %v", c.name, err)
		}
		srv.Close()
	}
	for _, bad := range []string{"", "ftp://x", "http://u:p@h/"} {
		if _, err := NewHTTP("x", bad, ""); err == nil {
			t.Errorf("took %q", bad)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"query":"x","num":3}`))
	tl := New(nil, tool.Price{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := tl.Check(b); err == nil && (q.(Query).Num < 1 || len(q.(Query).Terms) == 0) {
			t.Errorf("took %s", b)
		}
	})
}
