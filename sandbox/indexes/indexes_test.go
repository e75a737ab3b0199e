package indexes

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// get asks a server as a box would.
func get(t *testing.T, s *Server, p string) (int, string) {
	t.Helper()
	resp, err := http.Get(s.URL + p)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Each registry is reached by its own path, pages lead to files by ours, and who
// asks stays on this side.
func TestServe(t *testing.T) {
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "of another host") }))
	defer files.Close()
	far := strings.Replace(strings.TrimPrefix(files.URL, "http://"), "127.0.0.1", "localhost", 1)
	var inward *httptest.Server
	inward = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		switch r.URL.EscapedPath() {
		case "/idx/six/":
			if user != "me" || pass != "secret" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if strings.HasPrefix(r.Header.Get("Accept"), simpleJSON) {
				w.Header().Set("Content-Type", simpleJSON)
				fmt.Fprintf(w, `{"name":"six","files":[{"filename":"six-2.whl","url":"../../f/six-2.whl","upload-time":"2023-03-04T00:00:00Z"},{"url":"file:///etc/passwd"},{"url":7},{}]}`)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<a href="../../f/six-1.whl#sha256=00">six</a> <a href='http://%s/x/far.whl'>far</a> <a href="file:///etc/passwd">no</a>`, far)
		case "/f/six-1.whl":
			_, _ = io.WriteString(w, "wheel")
		case "/f/six-2.whl":
			_, _ = io.WriteString(w, "newer wheel")
		case "/f/six-1.whl.metadata":
			_, _ = io.WriteString(w, "metadata")
		case "/npm/left-pad":
			w.Header().Set("Content-Type", "application/json")
			if r.Header.Get("Authorization") != "Bearer key" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprintf(w, `{"dist":{"tarball":"%s/npm/left-pad/-/left-pad-1.tgz"}}`, inward.URL)
		case "/npm/left-pad/-/left-pad-1.tgz":
			_, _ = io.WriteString(w, "tgz")
		case "/deb/dists/x/InRelease":
			_, _ = io.WriteString(w, "release")
		default:
			http.NotFound(w, r)
		}
	}))
	defer inward.Close()
	rc := t.TempDir() + "/.npmrc"
	host := strings.TrimPrefix(inward.URL, "http:")
	writeFile(t, rc, "registry="+inward.URL+"/npm/\n"+host+"/npm/:_authToken=${NPM_KEY}\n")
	env := map[string]string{"PIP_INDEX_URL": strings.Replace(inward.URL, "://", "://me:secret@", 1) + "/idx/", "HOME": strings.TrimSuffix(rc, "/.npmrc"), "NPM_KEY": "key"}
	var log strings.Builder
	var mu sync.Mutex
	got := map[string]string{} // by registry and path
	s, err := Serve(Config{Got: func(f File) {
		mu.Lock()
		defer mu.Unlock()
		got[f.Registry+" "+f.Path] = f.SHA256
	}, Names: []string{Apt, Pip, Npm}, Archives: []Archive{{URI: inward.URL + "/deb", Suites: []string{"x"}, Parts: []string{"main"}}}, Getenv: func(k string) string { return env[k] }, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := strings.TrimPrefix(inward.URL, "http://")
	code, page := get(t, s, "/pip/simple/six/")
	if want := `href="` + inBox + "/pip/file/" + at + `/f/six-1.whl#sha256=00"`; code != 200 || !strings.Contains(page, want) || strings.Contains(page, "secret") {
		t.Fatalf("%d %s, want %s", code, page, want)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/pip/simple/six/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", simpleJSON+", text/html;q=0.2")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if want := `{"files":[{"filename":"six-2.whl","upload-time":"2023-03-04T00:00:00Z","url":"` + inBox + "/pip/file/" + at + `/f/six-2.whl"}],"name":"six"}`; err != nil || string(b) != want || resp.Header.Get("Content-Type") != simpleJSON {
		t.Errorf("%v, %s, %s, want %s", err, resp.Header, b, want)
	}
	for p, want := range map[string]string{
		"/pip/file/" + at + "/f/six-2.whl": "newer wheel",
		"/pip/file/" + at + "/f/six-1.whl": "wheel", "/pip/file/" + at + "/f/six-1.whl.metadata": "metadata", "/pip/file/" + strings.Replace(at, ":", "%3A", 1) + "/f/six%2D1.whl": "wheel",
		"/npm/left-pad": `{"dist":{"tarball":"` + inBox + `/npm/left-pad/-/left-pad-1.tgz"}}`, "/npm/left-pad/-/left-pad-1.tgz": "tgz",
		"/apt/0/dists/x/InRelease": "release",
	} {
		if code, got := get(t, s, p); code != 200 || got != want {
			t.Errorf("%s: %d %q", p, code, got)
		}
	}
	for name, body := range map[string]string{"pip six-1.whl": "wheel", "npm left-pad/-/left-pad-1.tgz": "tgz"} {
		// A reply may be read before its server has noted it.
		for sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); ; runtime.Gosched() {
			mu.Lock()
			x := got[name]
			mu.Unlock()
			if x == sum {
				break
			}
			if x != "" || t.Context().Err() != nil {
				t.Fatalf("%s: %q", name, x)
			}
		}
	}
	mu.Lock()
	if _, page := got["npm left-pad"]; page {
		t.Error("a page that was rewritten is noted as a file")
	}
	mu.Unlock()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("registries that answer: %v", err)
	}
	for p, want := range map[string]int{
		"/": 403, "/go/x": 403, "/cargo/config.json": 403, "/pip/other": 404, "/pip/file/" + at + "/etc/passwd": 403, "/pip/file/" + at + "/f/six-1.whl/../x": 403,
		"/apt/1/x": 404, "/apt/0/../../f/six-1.whl": 403, "/apt/0/%2e%2e/f": 403, "/http://x.example/": 403,
		// A host that only a page named is of the open net or none.
		"/pip/file/" + far + "/x/far.whl": 502,
	} {
		if code, body := get(t, s, p); code != want {
			t.Errorf("%s: %d %q, want %d", p, code, body, want)
		}
	}
	if resp, err := http.Post(s.URL+"/npm/left-pad", "text/plain", strings.NewReader("x")); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v, %v", resp, err)
	}
	for _, e := range append(s.Env("/d"), string(s.Files("/d")["sources.list"]), string(s.Files("/d")["apt.conf"]), log.String()) {
		if strings.Contains(e, "secret") || strings.Contains(e, "Bearer") {
			t.Errorf("%s", e)
		}
	}
	if got := string(s.Files("/d")["sources.list"]); got != "deb "+inBox+"/apt/0 x main\n" {
		t.Errorf("%q", got)
	}
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer down.Close()
	failing, err := Serve(Config{Names: []string{Npm}, Getenv: func(k string) string { return map[string]string{"NPM_CONFIG_REGISTRY": down.URL}[k] }})
	if err != nil {
		t.Fatal(err)
	}
	defer failing.Close()
	if err := failing.Check(t.Context()); err == nil {
		t.Error("a registry that fails is said to answer")
	}
	if _, err := Serve(Config{Names: []string{"ftp"}}); err == nil {
		t.Error("an unknown registry is served")
	}
	if _, err := Serve(Config{Getenv: func(string) string { return "ftp://x" }}); err == nil {
		t.Error("an index that is not a web address is served")
	}
}

func writeFile(t *testing.T, at, text string) {
	t.Helper()
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
