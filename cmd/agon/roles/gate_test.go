package roles

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/kit"
)

func (r *registry) get(path string, edit func(*http.Request)) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.URL()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if edit != nil {
		edit(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A server has its port before its arenas: until they are open nothing is
// answered but 503, then /readyz says so.
func TestReadiness(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Arenas = []string{smallArena(t, "small/interval-merge")}
	s, err := openServer(t.Context(), o, o.Kinds(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	r := &registry{t, s}
	for _, path := range []string{"/readyz", "/v1/server", "/v1/arenas", "/", "/metrics", "/ledger/v1"} {
		status, body := r.get(path, nil)
		var p client.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || status != 503 || p.Code != "not_ready" {
			t.Errorf("%s before the arenas: %d %s", path, status, body)
		}
	}
	f, err := kit.LoadArenaFile(o.Arenas[0], o.Kits)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.openArena(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.get("/readyz", nil); status != 503 {
		t.Errorf("ready before all arenas are: %d", status)
	}
	s.gate.open.Store(true)
	if status, body := r.get("/readyz", nil); status != 204 {
		t.Errorf("not ready with its arenas: %d %s", status, body)
	}
	if status, body := r.get("/v1/arenas/test-coding", nil); status != 200 {
		t.Errorf("the arena: %d %s", status, body)
	}
}

// A validator that a server does not understand ends before it makes a box.
func TestValidatorChecksProtocol(t *testing.T) {
	for _, x := range []struct {
		server string
		code   string
		sends  bool
	}{{`{"audience":"a"}`, "", false}, {`{"audience":"a","protocols":{"min":1,"max":9}}`, "", true}, {`{"audience":"a","protocols":{"min":8,"max":9}}`, "protocol_version", false}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, x.server)
		}))
		c, err := client.New(s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := protocolsFor(t.Context(), c)
		if (x.code == "") != (err == nil) || x.code != "" && !client.IsCode(err, x.code) || (p != nil) != x.sends {
			t.Errorf("%s: %v, %v", x.server, p, err)
		}
		s.Close()
	}
}

// /metrics tells money: it is the operator's.
func TestMetricsAreTheOperators(t *testing.T) {
	dir := t.TempDir()
	r := newRegistry(t, dir, "")
	b, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(b))
	info, err := r.client(nil).Server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(k *auth.Key) func(*http.Request) {
		return func(q *http.Request) {
			if err := auth.SignRequest(q, nil, k, info.Audience, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	bearer := func(word string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+word) }
	}
	for name, x := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"nobody":        {nil, 401},
		"a stranger":    {sign(newKey(t)), 401},
		"a wrong token": {bearer(strings.Repeat("0", 64)), 401},
		"no token":      {bearer(""), 401},
		"the token":     {bearer(token), 200},
		"the operator":  {sign(r.Operator.Hotkey), 200},
	} {
		status, body := r.get("/metrics", x.edit)
		if status != x.want || strings.Contains(body, "agon_") != (x.want == 200) {
			t.Errorf("%s: %d %.200s, want %d", name, status, body, x.want)
		}
	}
	// Where this machine may read, what a proxy forwards may not.
	g := &guarded{next: http.NotFoundHandler(), local: true, token: token}
	for _, x := range []struct {
		from, header string
		want         int
	}{{"127.0.0.1:1", "", 404}, {"[::1]:1", "", 404}, {"10.0.0.1:1", "", 401}, {"127.0.0.1:1", "X-Forwarded-For", 401}, {"127.0.0.1:1", "Forwarded", 401}, {"127.0.0.1:1", "X-Real-IP", 401}} {
		q := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		q.RemoteAddr = x.from
		if x.header != "" {
			q.Header.Set(x.header, "192.0.2.1")
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, q)
		if w.Code != x.want {
			t.Errorf("from %s with %q: %d, want %d", x.from, x.header, w.Code, x.want)
		}
	}
}

// A token that is too short is refused at the start, not served with.
func TestMetricsToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	one, err := metricsToken(path)
	if err != nil || len(one) != 64 {
		t.Fatal(one, err)
	}
	if two, err := metricsToken(path); err != nil || two != one {
		t.Errorf("the token changed: %v", err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := metricsToken(path); err == nil {
		t.Error("a short token was taken")
	}
}

// Where clients leave for good at a 503, they wait until the server has opened.
func TestGateWaits(t *testing.T) {
	g := &gate{
		kinds: func(string) bool { return false }, waits: func(p string) bool { return p == "/validator/heartbeat" },
		next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
	}
	ask := func(path string) int {
		rec := httptest.NewRecorder()
		g.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, nil))
		return rec.Code
	}
	if got := ask("/v1/leases"); got != http.StatusServiceUnavailable {
		t.Errorf("another path: %d", got)
	}
	answered := make(chan int)
	go func() { answered <- ask("/validator/heartbeat") }()
	for g.waiting.Load() == 0 {
		runtime.Gosched()
	}
	g.open.Store(true)
	if got := <-answered; got != http.StatusOK {
		t.Errorf("after it opened: %d", got)
	}
	g.open.Store(false)
	g.waiting.Store(waitsMost)
	if got := ask("/validator/heartbeat"); got != http.StatusServiceUnavailable {
		t.Errorf("too many wait: %d", got)
	}
}
