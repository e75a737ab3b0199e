// Package indexes shows package registries to boxes that have no network. Its
// handler has a path for each registry of this machine's configuration and leads
// nowhere else; only reading is passed on, and credentials stay on this side. A
// box reaches it by a door.
package indexes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Names of registries.
const (
	Apt   = "apt"
	Pip   = "pip"
	Npm   = "npm"
	Go    = "go"
	Cargo = "cargo"
)

// All lists the registries that can be shown.
var All = []string{Apt, Pip, Npm, Go, Cargo}

// Bounds of what is passed on.
const (
	maxPage  = 64 << 20 // bytes of a page that is rewritten
	maxFile  = 4 << 30  // bytes of any answer
	maxNamed = 200_000  // files that pages name
)

// Apt is what an apt in a box reads.
type Archive struct {
	URI    string // of the host's sources
	Suites []string
	Parts  []string
}

// Config says what is shown.
type Config struct {
	// Names of the registries; none: no network at all.
	Names []string
	// Archives are those of the image's distribution.
	Archives []Archive
	// Getenv reads the operator's settings; nil is os.Getenv.
	Getenv func(string) string
	// Log receives what was fetched, one line each; nil discards it.
	Log io.Writer
	// Got is called with each file that was handed out whole, from many goroutines; may be nil.
	Got func(File)
}

// File is what a registry gave: its path below the registry (of pip the file's
// name), and the SHA-256 of its bytes.
type File struct {
	Registry, Path, SHA256 string
	Bytes                  int64
}

// Server serves registries on the loopback device until it is closed.
type Server struct {
	// URL is where the door leads.
	URL string

	cfg     Config
	pip     *url.URL
	npm     *url.URL
	npmKey  string
	proxy   *url.URL
	clients map[string]*http.Client // by the host that is trusted
	http    *http.Server

	mu    sync.Mutex
	files map[string]string // what pages named: path below /pip/file/ to address
}

// Serve starts a server for one build.
func Serve(c Config) (*Server, error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	for _, n := range c.Names {
		if !slices.Contains(All, n) {
			return nil, fmt.Errorf("registry %.40q: want some of %s", n, strings.Join(All, ", "))
		}
	}
	s := &Server{cfg: c, clients: map[string]*http.Client{}, files: map[string]string{}}
	var err error
	if s.pip, err = base(pipIndex(c.Getenv), "https://pypi.org/simple"); err != nil {
		return nil, fmt.Errorf("pip's index-url: %w", err)
	}
	var registry string
	registry, s.npmKey = npmRegistry(c.Getenv)
	if s.npm, err = base(registry, "https://registry.npmjs.org"); err != nil {
		return nil, fmt.Errorf("npm's registry: %w", err)
	}
	first, _, _ := strings.Cut(c.Getenv("GOPROXY"), ",")
	if first, _, _ = strings.Cut(first, "|"); first == "direct" || first == "off" {
		first = ""
	}
	if s.proxy, err = base(first, "https://proxy.golang.org"); err != nil {
		return nil, fmt.Errorf("GOPROXY: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve registries: %w", err)
	}
	s.URL = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Close ends it.
func (s *Server) Close() error { return s.http.Close() }

func base(v, standard string) (*url.URL, error) {
	if v == "" {
		v = standard
	}
	u, err := url.Parse(strings.TrimRight(v, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("it is not an address of the web")
	}
	return u, nil
}

// Door is where boxes see the server.
const Door = "127.0.0.1:8399"

const inBox = "http://" + Door

// Env is what package managers in the box read. dir is where Files stand there.
func (s *Server) Env(dir string) []string {
	has := func(n string) bool { return slices.Contains(s.cfg.Names, n) }
	env := []string{
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_CACHE_DIR=1", "PIP_ROOT_USER_ACTION=ignore", "NPM_CONFIG_UPDATE_NOTIFIER=false", "NPM_CONFIG_FUND=false", "NPM_CONFIG_AUDIT=false",
		"DEBIAN_FRONTEND=noninteractive", "APT_CONFIG=" + dir + "/apt.conf",
	}
	if has(Pip) {
		env = append(env, "PIP_INDEX_URL="+inBox+"/pip/simple/", "UV_INDEX_URL="+inBox+"/pip/simple/", "UV_DEFAULT_INDEX="+inBox+"/pip/simple/")
	}
	if has(Npm) {
		env = append(env, "NPM_CONFIG_REGISTRY="+inBox+"/npm/", "YARN_NPM_REGISTRY_SERVER="+inBox+"/npm", "COREPACK_NPM_REGISTRY="+inBox+"/npm")
	}
	if has(Cargo) {
		env = append(env, "CARGO_HTTP_MULTIPLEXING=false") // it would ask for another protocol, which doors refuse
	}
	if has(Go) {
		env = append(env, "GOPROXY="+inBox+"/go", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local")
	}
	return env
}

// CargoDir is where the box shows CargoConfig: cargo reads sources from no
// variable, and looks for its settings in all directories above a package.
const CargoDir = "/.cargo"

// CargoConfig is config.toml there; nil where cargo is not served.
func (s *Server) CargoConfig() []byte {
	if !slices.Contains(s.cfg.Names, Cargo) {
		return nil
	}
	return []byte("[source.crates-io]\nreplace-with = \"agon\"\n[source.agon]\nregistry = \"sparse+" + inBox + "/cargo/\"\n")
}

// Files are what stands in the box beside Env, by name.
func (s *Server) Files(dir string) map[string][]byte {
	conf := `Dir::Etc::SourceList "` + dir + `/sources.list";
Dir::Etc::SourceParts "/dev/null";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::http::Proxy "false";
Acquire::Retries "2";
Acquire::Check-Valid-Until "false";
Dpkg::Use-Pty "0";
DPkg::Options:: "--force-unsafe-io";
`
	var list strings.Builder
	if slices.Contains(s.cfg.Names, Apt) {
		for i, a := range s.cfg.Archives {
			for _, suite := range a.Suites {
				fmt.Fprintf(&list, "deb %s/apt/%d %s %s\n", inBox, i, suite, strings.Join(a.Parts, " "))
			}
		}
	}
	return map[string][]byte{"apt.conf": []byte(conf), "sources.list": []byte(list.String())}
}

// ServeHTTP passes a question on.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "this way leads to package registries, which are only read", http.StatusMethodNotAllowed)
		return
	}
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	name, rest, _ := strings.Cut(rest, "/")
	if !slices.Contains(s.cfg.Names, name) || !sound(rest) {
		http.Error(w, "this build may not ask "+fmt.Sprintf("%.40q", name), http.StatusForbidden)
		return
	}
	switch name {
	case Apt:
		s.apt(w, r, rest)
	case Pip:
		s.pypi(w, r, rest)
	case Npm:
		s.pass(w, r, s.npm, rest, s.npmKey, func(b []byte, _ string) []byte {
			return bytes.ReplaceAll(b, []byte(`"`+plainURL(s.npm)+"/"), []byte(`"`+inBox+"/npm/"))
		})
	case Go:
		s.pass(w, r, s.proxy, rest, "", nil)
	case Cargo:
		s.crates(w, r, rest)
	}
}

// sound refuses paths that lead up.
func sound(p string) bool {
	u, err := url.PathUnescape(p)
	return err == nil && !strings.ContainsAny(u, "\x00\r\n\\") && !slices.Contains(strings.Split(u, "/"), "..")
}

func (s *Server) apt(w http.ResponseWriter, r *http.Request, rest string) {
	n, rest, _ := strings.Cut(rest, "/")
	for i, a := range s.cfg.Archives {
		if n != fmt.Sprint(i) {
			continue
		}
		u, err := base(a.URI, "")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		s.pass(w, r, u, rest, "", nil)
		return
	}
	http.NotFound(w, r)
}

func (s *Server) crates(w http.ResponseWriter, r *http.Request, rest string) {
	if rest == "config.json" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"dl":"`+inBox+`/cargo/dl"}`)
		return
	}
	at := "https://index.crates.io"
	if file, ok := strings.CutPrefix(rest, "dl/"); ok { // NAME/VERSION/download
		p := strings.Split(file, "/")
		if len(p) != 3 || p[2] != "download" {
			http.NotFound(w, r)
			return
		}
		at, rest = "https://static.crates.io/crates", p[0]+"/"+p[0]+"-"+p[1]+".crate"
	}
	u, err := url.Parse(at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	s.pass(w, r, u, rest, "", nil)
}

// link finds what a page of an index leads to.
var link = lazyregexp.New(`(?i)(href=["'])([^"'#]+)`)

func (s *Server) pypi(w http.ResponseWriter, r *http.Request, rest string) {
	if file, ok := strings.CutPrefix(rest, "file/"); ok {
		file, _ = url.PathUnescape(file) // it is sound; clients write the same name in several ways
		s.mu.Lock()
		at := s.files[strings.TrimSuffix(file, ".metadata")]
		s.mu.Unlock()
		u, err := url.Parse(at)
		if at == "" || err != nil {
			http.Error(w, "no page of the index has named this file", http.StatusForbidden)
			return
		}
		name := path.Base(u.EscapedPath())
		if strings.HasSuffix(file, ".metadata") {
			name += ".metadata"
		}
		u.RawPath, u.Path = "", path.Dir(u.Path)
		s.pass(w, r, u, name, "", nil)
		return
	}
	page, ok := strings.CutPrefix(rest, "simple/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	// The two forms that are rewritten. Only JSON tells when a file came.
	accept := "text/html"
	if strings.Contains(r.Header.Get("Accept"), simpleJSON) {
		accept = simpleJSON + ", text/html;q=0.1"
	}
	r.Header.Set("Accept", accept)
	from := s.pip.JoinPath(page, "/")
	s.pass(w, r, s.pip, page, "", func(b []byte, form string) []byte {
		if strings.HasPrefix(form, simpleJSON) {
			return s.simple(b, from)
		}
		return link().ReplaceAllFunc(b, func(m []byte) []byte {
			p := link().FindSubmatch(m)
			at := s.file(from, strings.ReplaceAll(string(p[2]), "&amp;", "&"))
			if at == "" {
				return m
			}
			return append(append([]byte{}, p[1]...), at...)
		})
	})
}

// simpleJSON is a page of an index as JSON (PEP 691).
const simpleJSON = "application/vnd.pypi.simple.v1+json"

// file is where a box finds what a page at from calls ref; "" where it is nothing of the web.
func (s *Server) file(from *url.URL, ref string) string {
	u, err := from.Parse(ref)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	u.User = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	// Pages name each file once; the name alone is not unique among indexes.
	key := u.Host + u.Path
	if len(s.files) < maxNamed {
		s.files[key] = u.String()
	}
	return inBox + (&url.URL{Path: "/pip/file/" + key}).EscapedPath()
}

// simple is a page as JSON whose files are found here. A page that cannot be read
// comes to nothing.
func (s *Server) simple(b []byte, from *url.URL) []byte {
	var page map[string]json.RawMessage
	var files []map[string]json.RawMessage
	if json.Unmarshal(b, &page) != nil || page["files"] != nil && json.Unmarshal(page["files"], &files) != nil {
		return nil
	}
	kept := files[:0]
	for _, f := range files {
		var ref string
		if json.Unmarshal(f["url"], &ref) != nil {
			continue
		}
		ref, _, _ = strings.Cut(ref, "#")
		if at := s.file(from, ref); at != "" {
			f["url"], _ = json.Marshal(at)
			kept = append(kept, f)
		}
	}
	page["files"], _ = json.Marshal(kept)
	b, _ = json.Marshal(page)
	return b
}

// plainURL is an address without who asks.
func plainURL(u *url.URL) string {
	v := *u
	v.User = nil
	return v.String()
}

// pass asks a registry and hands its answer on, as edit changes it.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, to *url.URL, rest, key string, edit func(b []byte, form string) []byte) {
	u := *to
	u.User = nil
	at := strings.TrimRight(u.String(), "/") + "/" + rest
	if r.URL.RawQuery != "" {
		at += "?" + r.URL.RawQuery
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, at, nil)
	if err != nil {
		http.Error(w, "no such address", http.StatusBadRequest)
		return
	}
	for _, h := range []string{"Accept", "Range", "If-Modified-Since", "If-None-Match", "If-Range"} {
		if v := r.Header.Get(h); v != "" && (edit == nil || h == "Accept") {
			req.Header.Set(h, v)
		}
	}
	req.Header.Set("User-Agent", "agon")
	if to.User != nil {
		pass, _ := to.User.Password()
		req.SetBasicAuth(to.User.Username(), pass)
	} else if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := s.client(to.Hostname()).Do(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintf(s.cfg.Log, "%s cannot be had: %v\n", at, plainError(err))
		}
		http.Error(w, "the registry cannot be asked", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for _, h := range []string{"Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "Last-Modified", "Etag"} {
		if v := resp.Header.Get(h); v != "" && (edit == nil || h == "Content-Type") {
			w.Header().Set(h, v)
		}
	}
	var body io.Reader = io.LimitReader(resp.Body, maxFile)
	edited := false
	if edit != nil && r.Method == http.MethodGet && resp.StatusCode == http.StatusOK && isPage(resp.Header.Get("Content-Type")) {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
		if err != nil || len(b) > maxPage {
			http.Error(w, fmt.Sprintf("the registry's page has more than %d bytes", maxPage), http.StatusBadGateway)
			return
		}
		body, edited = bytes.NewReader(edit(b, resp.Header.Get("Content-Type"))), true
	}
	w.WriteHeader(resp.StatusCode)
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), body)
	if s.cfg.Got != nil && err == nil && !edited && resp.StatusCode == http.StatusOK && r.Method == http.MethodGet && (resp.ContentLength < 0 || n == resp.ContentLength) {
		registry, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		s.cfg.Got(File{Registry: registry, Path: rest, SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: n})
	}
	if resp.StatusCode == http.StatusOK && edit == nil && r.Method == http.MethodGet {
		fmt.Fprintf(s.cfg.Log, "fetched %s, %d bytes\n", at, n)
	}
}

func isPage(t string) bool { return strings.Contains(t, "html") || strings.Contains(t, "json") }

func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// known are hosts that the standard registries hand their files out from.
var known = map[string]string{"files.pythonhosted.org": "pypi.org"}

// client asks one host. What it redirects to may not lie in this network, unless
// it stands there itself.
func (s *Server) client(host string) *http.Client {
	if s.pip.Hostname() != host && known[host] != s.pip.Hostname() && s.npm.Hostname() != host && s.proxy.Hostname() != host && !s.archive(host) && !strings.HasSuffix(host, ".crates.io") {
		host = "" // a page named it: of the open net only
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[host]
	if c == nil {
		c = &http.Client{Transport: fetch.Outward(host), CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > 5 {
				return errors.New("more than 5 redirects")
			}
			if req.URL.Host != via[0].URL.Host {
				req.Header.Del("Authorization")
			}
			return nil
		}}
		s.clients[host] = c
	}
	return c
}

func (s *Server) archive(host string) bool {
	return slices.ContainsFunc(s.cfg.Archives, func(a Archive) bool {
		u, err := url.Parse(a.URI)
		return err == nil && u.Hostname() == host
	})
}

// pages are small pages that each registry has, by which it is asked whether it answers.
var pages = map[string]string{Pip: "simple/pip/", Npm: "abbrev", Go: "rsc.io/quote/@v/v1.5.2.info", Cargo: "3/s/syn"}

// Check asks each registry, past the box: an error names one that does not answer.
func (s *Server) Check(ctx context.Context) error {
	for _, n := range s.cfg.Names {
		page, ok := pages[n]
		if !ok {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/"+n+"/"+page, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("ask registry %s: %w", n, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusUnauthorized {
			return fmt.Errorf("registry %s answers %d", n, resp.StatusCode)
		}
	}
	return nil
}
