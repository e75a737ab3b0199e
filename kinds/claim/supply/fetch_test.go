package supply

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

var smallFeed = `<rss version="2.0"><channel><item><title>One</title><link>https://example.com/1</link><description>` + strings.Repeat("The town has a new bridge over the river. ", 20) + `</description><pubDate>Mon, 02 Nov 2026 10:00:00 GMT</pubDate></item></channel></rss>`

// A feed is read where the operator says it is; it cannot have us ask another
// address of this machine or of its network.
func TestFetch(t *testing.T) {
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(smallFeed))
	}))
	defer inner.Close()
	inward := strings.Replace(inner.URL, "127.0.0.1", "localhost", 1)
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/feed":
			_, _ = w.Write([]byte(smallFeed))
		case "/inward":
			http.Redirect(w, r, inward, http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer outer.Close()
	if items, err := Fetch(t.Context(), outer.URL+"/feed"); err != nil || len(items) != 1 {
		t.Errorf("%v %v", items, err)
	}
	for _, path := range []string{"/inward", "/round", "/none"} {
		if items, err := Fetch(t.Context(), outer.URL+path); err == nil {
			t.Errorf("%s: %v", path, items)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the inner server was asked %d times", n)
	}
	if _, err := Fetch(t.Context(), "file:///etc/passwd"); err == nil {
		t.Error("a file was read")
	}
}
