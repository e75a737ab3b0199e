package door

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxied is a proxy with all that is behind it.
type proxied struct {
	*Proxy
	t       *testing.T
	fetches atomic.Int32
	list    atomic.Value // of the backend: a body, or a status
	hold    chan struct{}

	mu    sync.Mutex
	now   time.Time // guarded by mu
	asked []string  // guarded by mu; what reached search and provider
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	x := &proxied{t: t, now: time.Unix(1_000_000, 0)}
	x.list.Store(`{"models":["a/b","c"]}`)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.fetches.Add(1)
		if x.hold != nil {
			<-x.hold
		}
		said, _ := x.list.Load().(string)
		if r.URL.Path != "/v1/public/inference/models" || said == "" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, said)
	}))
	t.Cleanup(backend.Close)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		x.mu.Lock()
		x.asked = append(x.asked, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("X-Identifier"), body))
		x.mu.Unlock()
		w.Header().Set("X-Own", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, strings.Repeat("x", 300<<10)) // over what the source can pass
	}))
	t.Cleanup(behind.Close)
	p, err := NewProxy(ProxyConfig{Backend: backend.URL + "/", Search: behind.URL, Inference: behind.URL + "/v1", Now: func() time.Time {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.now
	}})
	if err != nil {
		t.Fatal(err)
	}
	x.Proxy = p
	return x
}

func (x *proxied) skip(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = x.now.Add(d)
}

func (x *proxied) ask(method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://proxy"+target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer mine")
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

const allowedAsk = `{"model":"a/b","messages":[]}`

// Each answer of ORO's proxy, byte for byte, in the order of its checks; and what passes
// arrives with query, token and body.
func TestProxyBodies(t *testing.T) {
	x := newProxied(t)
	chat := "/inference/chat/completions"
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/health", "", 200, "healthy\n"},
		{"GET", "/", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"GET", "/search/get_product_raw?product_ids=1", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"GET", "/search/get_product_rawest", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"GET", "/search//get_product_raw", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"GET", "/search/x/../get_product_raw", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"GET", "/search/%2e%2e/inference/x", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"DELETE", "/inference/files/1", "", 403, "{\"error\": \"forbidden\"}\n"},
		{"POST", chat, "", 400, `{"error":"Missing or unreadable request body"}`},
		{"POST", chat, "{", 400, `{"error":"Invalid JSON in request body"}`},
		{"POST", chat, `{"model":""}`, 400, `{"error":"Missing 'model' field in request body"}`},
		{"POST", chat, `{"model":"x","stream":true}`, 400, `{"error":"Streaming is not supported through the proxy"}`},
		{"POST", chat, `{"model":"<x>"}`, 403, `{"error":"Model '<x>' is not allowed","allowed_models":["a/b","c"]}`},
		{"POST", chat, strings.Repeat(" ", maxBody+1), 413, `{"error":"the body is too large"}`},
	} {
		if w := x.ask(c.method, c.target, c.body); w.Code != c.status || w.Body.String() != c.want {
			t.Errorf("%s %s %.40s: %d %s", c.method, c.target, c.body, w.Code, w.Body)
		}
	}
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/search/find_product?q=a+b&page=1", ""}, {"POST", chat + "?x=1", allowedAsk}, {"GET", "/inference/models", ""},
	} {
		if w := x.ask(c.method, c.target, c.body); w.Code != http.StatusTeapot || w.Body.Len() != 300<<10 || w.Header().Get("X-Own") != "yes" {
			t.Errorf("%s %s: %d, %d bytes", c.method, c.target, w.Code, w.Body.Len())
		}
	}
	want := "GET /find_product?q=a+b&page=1 Bearer mine  |POST /v1/chat/completions?x=1 Bearer mine orosn15 " + allowedAsk + "|GET /v1/models Bearer mine orosn15 "
	if got := strings.Join(x.asked, "|"); got != want {
		t.Errorf("what arrived: %s", got)
	}
	for _, bad := range []ProxyConfig{{Backend: "x", Search: "http://a", Inference: "http://a"}, {Backend: "http://a", Search: "ftp://a", Inference: "http://a"}, {Backend: "http://a", Search: "http://a", Inference: "http://u:p@a"}} {
		if _, err := NewProxy(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Eight cold requests at once make one fetch; the list holds for 15 minutes, then for
// 60 more while the backend does not answer; an empty list counts as none.
func TestProxyAllowList(t *testing.T) {
	x := newProxied(t)
	x.hold = make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if w := x.ask("POST", "/inference/chat/completions", allowedAsk); w.Code != http.StatusTeapot {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	x.hold <- struct{}{} // one is there; the others wait for it, or come later
	close(x.hold)
	wg.Wait()
	if n := x.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of eight requests", n)
	}
	call := func(body string) int { return x.ask("POST", "/inference/chat/completions", body).Code }
	x.list.Store(`{"models":["new"]}`)
	x.skip(freshFor - time.Second)
	if got := call(allowedAsk); got != http.StatusTeapot || x.fetches.Load() != 1 {
		t.Errorf("within the quarter of an hour: %d, %d fetches", got, x.fetches.Load())
	}
	x.skip(time.Second)
	if a, b := call(allowedAsk), call(`{"model":"new"}`); a != 403 || b != http.StatusTeapot || x.fetches.Load() != 2 {
		t.Errorf("after it: %d %d, %d fetches", a, b, x.fetches.Load())
	}
	x.list.Store("") // the backend is down
	x.skip(freshFor)
	for range 3 { // asked once, then not again for some seconds
		if got := call(`{"model":"new"}`); got != http.StatusTeapot || x.fetches.Load() != 3 {
			t.Errorf("stale: %d, %d fetches", got, x.fetches.Load())
		}
	}
	x.skip(staleFor - time.Second)
	if got := call(`{"model":"new"}`); got != http.StatusTeapot || x.fetches.Load() != 4 {
		t.Errorf("at the end of the grace: %d, %d fetches", got, x.fetches.Load())
	}
	x.skip(fetchPause)
	if w := x.ask("POST", "/inference/chat/completions", `{"model":"new"}`); w.Code != 503 || w.Body.String() != `{"error":"Inference allowlist unavailable"}` {
		t.Errorf("after the grace: %d %s", w.Code, w.Body)
	}
	for _, bad := range []string{`{"models":[]}`, `{}`, `<html>`} {
		x.list.Store(bad)
		x.skip(fetchPause)
		if got := call(`{"model":"new"}`); got != 503 {
			t.Errorf("%s is a list: %d", bad, got)
		}
	}
	x.list.Store(`{"models":["new"]}`)
	x.skip(fetchPause)
	if got := call(`{"model":"new"}`); got != http.StatusTeapot {
		t.Errorf("the backend is back: %d", got)
	}
}

// Searches and inference share one rate; the health of the proxy has none.
func TestProxyRate(t *testing.T) {
	x := newProxied(t)
	ok, over := 0, 0
	for i := range 100 {
		target, method, body := "/search/find_product", "GET", ""
		if i%2 == 0 {
			target, method, body = "/inference/chat/completions", "POST", allowedAsk
		}
		switch w := x.ask(method, target, body); w.Code {
		case http.StatusTeapot:
			ok++
		case http.StatusServiceUnavailable:
			over++
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if ok != burst+1 || over != 100-burst-1 || x.ask("GET", "/health", "").Code != 200 {
		t.Errorf("%d passed, %d did not", ok, over)
	}
	x.skip(time.Second)
	if w := x.ask("GET", "/search/find_product", ""); w.Code != http.StatusTeapot {
		t.Errorf("a second later: %d", w.Code)
	}
}
