package supply

import (
	"compress/gzip"
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
		case "/huge": // well formed as far as it is read
			_, _ = w.Write([]byte(strings.Replace(smallFeed, "<item>", "<description>"+strings.Repeat("x", MaxFeed)+"</description><item>", 1)))
		case "/bomb": // small on the wire
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte(strings.Replace(smallFeed, "<item>", "<description>"+strings.Repeat("x", MaxFeed)+"</description><item>", 1)))
			_ = z.Close()
		case "/broken":
			_, _ = w.Write([]byte(smallFeed[:len(smallFeed)/2]))
		case "/page":
			_, _ = w.Write([]byte("<html><body>Down for repairs.</body></html>"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer outer.Close()
	if items, err := Fetch(t.Context(), outer.URL+"/feed"); err != nil || len(items) != 1 {
		t.Errorf("%v %v", items, err)
	}
	for path, says := range map[string]string{"/inward": "", "/round": "", "/none": "", "/huge": "larger than 8388608 bytes", "/bomb": "larger than 8388608 bytes", "/broken": "feed", "/page": "feed"} {
		if items, err := Fetch(t.Context(), outer.URL+path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %d items, %v", path, len(items), err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the inner server was asked %d times", n)
	}
	if _, err := Fetch(t.Context(), "file:///etc/passwd"); err == nil {
		t.Error("a file was read")
	}
}
