package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestSharedBoards(t *testing.T) {
	now := time.Unix(1000, 0)
	n := 0
	h := (&server{cfg: Config{Now: func() time.Time { return now }}}).shared(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		if r.URL.Path == "/v1/arenas/gone/board" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, n)
	}))
	for _, x := range []struct {
		path  string
		after time.Duration
		code  int
		body  string
	}{
		{"/v1/arenas/a/board", 0, 200, "1"},
		{"/v1/arenas/a/board", boardLife - 1, 200, "1"},
		{"/v1/arenas/b/board", 0, 200, "2"},
		{"/v1/arenas/a/board?x=1", 0, 200, "3"}, // asked for something else
		{"/v1/arenas/a", 0, 200, "4"},
		{"/v1/arenas/a/board", 1, 200, "5"},
		{"/v1/arenas/gone/board", 0, 404, "6"},
		{"/v1/arenas/gone/board", 0, 404, "7"}, // an error is each caller's own
	} {
		now = now.Add(x.after)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, x.path, nil))
		if w.Code != x.code || w.Body.String() != x.body {
			t.Errorf("%s: %d %q, want %d %q", x.path, w.Code, w.Body, x.code, x.body)
		}
		if want := map[int]string{404: "application/problem+json"}[x.code]; want != "" && w.Header().Get("Content-Type") != want {
			t.Errorf("%s: type %q", x.path, w.Header().Get("Content-Type"))
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/v1/arenas/b/board", nil))
	if w.Body.String() != "8" {
		t.Errorf("another method came from the cache: %q", w.Body)
	}
}
