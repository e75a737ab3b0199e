package served

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewCache(func() time.Time { return now }, time.Second)
	n := 0
	get := func(key string) (string, error) {
		d, err := c.Get(key, func() ([]byte, error) {
			n++
			if key == "bad" {
				return nil, errors.New("no")
			}
			return []byte(key), nil
		})
		if err != nil {
			return "", err
		}
		return string(d.body), nil
	}
	for _, x := range []struct {
		key   string
		after time.Duration
		made  int
	}{{"a", 0, 1}, {"a", time.Second - 1, 1}, {"b", 0, 2}, {"a", 1, 3}, {"bad", 0, 4}, {"bad", 0, 4}, {"bad", time.Second, 5}} {
		now = now.Add(x.after)
		got, err := get(x.key)
		if n != x.made || (x.key == "bad") != (err != nil) || (err == nil && got != x.key) {
			t.Errorf("%+v: %q, %v, made %d times", x, got, err, n)
		}
	}
	for i := range 10 * maxKept {
		if _, err := c.Get(strings.Repeat("k", i), func() ([]byte, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.at) > maxKept {
		t.Errorf("%d replies are kept", len(c.at))
	}
}

// Those who come while a reply is made wait for it; one that panics leaves an error.
func TestCacheTogether(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewCache(func() time.Time { return now }, time.Second)
	var made atomic.Int32
	begun, go_ := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = c.Get("x", func() ([]byte, error) { close(begun); <-go_; made.Add(1); return []byte("x"), nil })
	})
	<-begun
	for range 20 {
		wg.Go(func() {
			d, err := c.Get("x", func() ([]byte, error) { made.Add(1); return nil, nil })
			if err != nil || string(d.body) != "x" {
				t.Errorf("%v, %v", d, err)
			}
		})
	}
	close(go_)
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get("p", func() ([]byte, error) { panic("x") })
	}()
	if _, err := c.Get("p", func() ([]byte, error) { return nil, nil }); err == nil {
		t.Error("a reply that panicked looks made")
	}
}

func TestDocument(t *testing.T) {
	long := New([]byte(strings.Repeat("agon ", 1000)))
	for _, x := range []struct {
		accept string
		doc    *Document
		zip    bool
	}{
		{"gzip", long, true},
		{"br, gzip;q=0.5", long, true},
		{"deflate,gzip", long, true},
		{"", long, false},
		{"identity", long, false},
		{"gzip;q=0", long, false},
		{"xgzip", long, false},
		{"gzip", New([]byte("short")), false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", x.accept)
		w := httptest.NewRecorder()
		x.doc.Write(w, r, http.StatusAccepted)
		body := io.Reader(w.Body)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != x.zip {
			t.Errorf("%q: compressed %v", x.accept, got)
		}
		if x.zip {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil || string(b) != string(x.doc.body) || w.Code != http.StatusAccepted || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %d bytes, %v, %d %v", x.accept, len(b), err, w.Code, w.Header())
		}
	}
}
