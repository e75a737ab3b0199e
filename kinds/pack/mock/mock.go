// Package mock serves the office tools of policy-pack scenarios over fixtures:
// chat, mail, calendar and task board behind a shell, memory, web and files.
// Its answers are those of ClawBench's own server, down to the arguments that
// end in status 500; the interop test asks both the same random questions.
// Nothing is executed and nothing leaves; every call is logged.
package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Limits of one server.
const (
	maxBody     = 1 << 20  // of a request, bytes
	maxFixture  = 4 << 20  // of one fixture, bytes
	maxFixtures = 32 << 20 // of a scenario, bytes
	maxFiles    = 500      // of a scenario
	maxCalls    = 10_000   // kept; more are refused
	maxKept     = 32 << 20 // bytes of answers that are kept
)

// DefaultScenario is played until another is set.
const DefaultScenario = "inbox_triage"

// Config is what a server is made of.
type Config struct {
	// Fixtures holds a folder per scenario.
	Fixtures fs.FS
	// Workspace is what the tool read sees first; nil: nothing.
	Workspace fs.FS
	Scenario  string // default DefaultScenario
	User      map[string]string
	Now       func() time.Time // time.Now
	// Log gets each line of SCENARIO_calls.jsonl and SCENARIO_all_requests.jsonl; nil: nowhere.
	Log func(name string, line []byte) error
	// Slog is used when Log fails; nil: slog.Default.
	Slog *slog.Logger
}

// Call is one call that was answered.
type Call struct {
	TS       string         `json:"ts"`
	Tool     string         `json:"tool"`
	Args     packfile.Value `json:"args"`
	Response packfile.Value `json:"response"`
	Summary  string         `json:"result_summary"`
}

// Request is one request, whatever became of it.
type Request struct {
	TS      string         `json:"ts"`
	Tool    string         `json:"tool"`
	Body    packfile.Value `json:"request_body"`
	Status  int            `json:"status_code"`
	Success bool           `json:"success"`
}

// Server serves one scenario at a time. Safe for concurrent use.
type Server struct {
	cfg Config

	mu       sync.RWMutex // guards all below
	sc       *scenario
	user     map[string]string
	calls    []Call
	requests []Request
	kept     int
}

// scenario is the fixtures of one scenario, read once. Immutable.
type scenario struct {
	name   string
	data   map[string]packfile.Value
	files  map[string]string // by path below its folder
	dirs   map[string]bool   // folders that hold one of files; "." too
	memory []memoryFile      // of the folder memory, sorted
	notes  *memoryFile       // MEMORY.md; nil: there is none
}

type memoryFile struct {
	path  string
	lines []string
}

// New reads the first scenario. A folder that is missing is an empty scenario,
// as for other servers of such fixtures.
func New(c Config) (*Server, error) {
	if c.Fixtures == nil {
		return nil, errors.New("mock tools: no fixtures are given")
	}
	if c.Scenario == "" {
		c.Scenario = DefaultScenario
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Slog == nil {
		c.Slog = slog.Default()
	}
	s := &Server{cfg: c}
	sc, err := load(c.Fixtures, c.Scenario)
	if err != nil {
		return nil, err
	}
	s.sc, s.user = sc, user(c.User)
	return s, nil
}

func user(given map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range given {
		out[k] = v
	}
	if _, ok := out["USER_FIRST_NAME"]; !ok {
		if words := strings.Fields(out["USER_NAME"]); len(words) > 0 {
			out["USER_FIRST_NAME"] = words[0]
		}
	}
	return out
}

var scenarioName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// files of fixtures, the first that is there of each.
var fixtureFiles = map[string][]string{
	"inbox": {"inbox.json"}, "calendar": {"calendar.json"}, "tasks": {"tasks.json"}, "documents": {"documents.json"}, "contacts": {"contacts.json"},
	"slack_messages": {"slack_messages.json", "slack.json"}, "slack_channels": {"slack_channels.json"},
	"web_search": {"web_search_results.json", "web_search.json"}, "web_pages": {"web_pages.json", "web_fetch.json"},
}

func load(root fs.FS, name string) (*scenario, error) {
	if !scenarioName().MatchString(name) {
		return nil, fmt.Errorf("mock tools: scenario %q: want letters, digits, _ and -, at most 64", plain.First(name, 80))
	}
	sc := &scenario{name: name, data: map[string]packfile.Value{}, files: map[string]string{}, dirs: map[string]bool{".": true}}
	dir, err := fs.Sub(root, name)
	if err != nil {
		return nil, fmt.Errorf("mock tools: open %s: %w", name, err)
	}
	total := 0
	err = fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p == "." {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err // links are not followed
		}
		f, err := dir.Open(p)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		b, err := io.ReadAll(io.LimitReader(f, maxFixture+1))
		if err != nil {
			return err
		}
		if total += len(b); len(b) > maxFixture || total > maxFixtures || len(sc.files) >= maxFiles {
			return fmt.Errorf("fixtures of %s: more than %d files, %d bytes of one or %d bytes of all", name, maxFiles, maxFixture, maxFixtures)
		}
		sc.files[p] = string(b)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mock tools: read %s: %w", name, err)
	}
	paths := make([]string, 0, len(sc.files))
	for p := range sc.files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		for dir := path.Dir(p); !sc.dirs[dir]; dir = path.Dir(dir) {
			sc.dirs[dir] = true
		}
		f := memoryFile{p, strings.Split(readable(sc.files[p]), "\n")}
		switch {
		case p == "MEMORY.md":
			sc.notes = &f
		case path.Dir(p) == "memory":
			sc.memory = append(sc.memory, f)
		}
	}
	for key, names := range fixtureFiles {
		for _, n := range names {
			text, ok := sc.files[n]
			if !ok {
				continue
			}
			v, err := packfile.ParseLimit([]byte(text))
			if err != nil {
				return nil, fmt.Errorf("mock tools: %s/%s: %w", name, n, err)
			}
			sc.data[key] = v
			break
		}
	}
	return sc, nil
}

// inside resolves a path from a folder of the scenario. ok is false for one
// that leaves the scenario.
func (sc *scenario) inside(dir, name string) (p string, ok bool) {
	if path.IsAbs(name) || strings.Contains(name, "\x00") {
		return "", false
	}
	// Below a root of two levels, so that ../NAME/x is a path of the scenario as on a disk.
	p, ok = strings.CutPrefix(path.Join("/fixtures", sc.name, dir, name)+"/", "/fixtures/"+sc.name+"/")
	if p = strings.TrimSuffix(p, "/"); p == "" {
		p = "."
	}
	return p, ok
}

// call is one call under way.
type call struct {
	s    *Server
	sc   *scenario
	user map[string]string
	now  time.Time
}

// fixture returns a list of a scenario. Fixtures that are an object with one
// list in it are that list.
func (c *call) fixture(name string) packfile.Value {
	v := c.sc.data[name]
	if v.Kind == packfile.Object && name != "web_search" && name != "web_pages" {
		for _, k := range v.Keys {
			if e := v.Fields[k]; e.Kind == packfile.List {
				return e
			}
		}
	}
	if v.Kind == packfile.Absent {
		return packfile.Value{Kind: packfile.List}
	}
	return v
}

func (c *call) stamp() string { return c.now.UTC().Format("20060102150405") }

func (c *call) workspace(name string) (string, bool) {
	if c.s.cfg.Workspace == nil || !fs.ValidPath(name) {
		return "", false
	}
	f, err := c.s.cfg.Workspace.Open(name)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFixture))
	return string(b), err == nil
}

var template = lazyregexp.New(`\{\{([\p{L}\p{N}_]+)\}\}`)

func fill(text string, user map[string]string) string {
	return template().ReplaceAllStringFunc(text, func(m string) string {
		if v, ok := user[m[2:len(m)-2]]; ok {
			return v
		}
		return m
	})
}

// do answers a known tool. An argument of a wrong type gives errArgument.
func (c *call) do(tool string, args packfile.Value) (answer packfile.Value, err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errArgument:
			err = errArgument
		default:
			panic(r)
		}
	}()
	if args.Kind != packfile.Object {
		return packfile.Value{}, errArgument
	}
	return c.answer(tool, args), nil
}

func (c *call) answer(tool string, args packfile.Value) packfile.Value {
	switch tool {
	case "slack":
		return c.slack(args)
	case "exec":
		return c.exec(args)
	case "memory_search":
		return c.memorySearch(args)
	case "memory_get":
		return c.memoryGet(args)
	case "web_search":
		return c.webSearch(args)
	case "web_fetch":
		return c.webFetch(args)
	}
	return c.read(args)
}

// Calls returns the calls so far, in order.
func (s *Server) Calls() []Call {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.calls)
}

// Requests returns the requests so far, in order.
func (s *Server) Requests() []Request {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.requests)
}

// SetScenario reads another scenario and forgets calls, requests and user.
func (s *Server) SetScenario(name string) error {
	sc, err := load(s.cfg.Fixtures, name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sc, s.calls, s.requests, s.user, s.kept = sc, nil, nil, map[string]string{}, 0
	return nil
}

// Tools is the part that an agent may reach: the tools and their list.
func (s *Server) Tools() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tools/{name...}", s.call)
	mux.HandleFunc("GET /tools", s.list)
	mux.HandleFunc("GET /health", s.health)
	return mux
}

// Handler serves tools and control endpoints: for a validator, or alone.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.Tools())
	mux.HandleFunc("GET /tool_calls", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]any{"calls": nonNil(s.Calls())})
	})
	mux.HandleFunc("GET /all_requests", func(w http.ResponseWriter, _ *http.Request) {
		list := s.Requests()
		good := 0
		for _, r := range list {
			if r.Success {
				good++
			}
		}
		write(w, http.StatusOK, map[string]any{
			"requests": nonNil(list), "summary": map[string]int{"total": len(list), "success": good, "failed": len(list) - good},
		})
	})
	mux.HandleFunc("POST /set_scenario/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := s.SetScenario(r.PathValue("name")); err != nil {
			write(w, http.StatusUnprocessableEntity, detail(err.Error()))
			return
		}
		write(w, http.StatusOK, map[string]string{"scenario": r.PathValue("name")})
	})
	mux.HandleFunc("POST /set_user_context", func(w http.ResponseWriter, r *http.Request) {
		var given map[string]string
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&given); err != nil {
			write(w, http.StatusUnprocessableEntity, detail("the body is not an object of texts"))
			return
		}
		u := user(given)
		s.mu.Lock()
		s.user = u
		s.mu.Unlock()
		write(w, http.StatusOK, map[string]any{"user_context": u})
	})
	return mux
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func detail(s string) map[string]string { return map[string]string{"detail": s} }

func write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"detail":"the answer could not be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.mu.RLock()
	name := s.sc.name
	s.mu.RUnlock()
	write(w, http.StatusOK, map[string]any{"status": "ok", "scenario": name, "tools_available": len(clawbench.Tools), "tool_names": clawbench.Tools})
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"tools": clawbench.Tools, "count": len(clawbench.Tools)})
}

// call answers one tool. A body that is empty or no JSON counts as an empty object.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	args := packfile.Obj()
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, http.StatusRequestEntityTooLarge, detail(fmt.Sprintf("the body has more than %d bytes", maxBody)))
		return
	}
	body := packfile.Of(nil)
	if v, err := packfile.ParseLimit(b); err == nil {
		args, body = v, v
	} else if len(b) > 0 {
		body = packfile.Obj("_raw", strings.ToValidUTF8(string(b), "\ufffd"))
	}
	status, answer := s.do(name, args, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out, err := answer.MarshalJSON()
	if err == nil {
		_, _ = w.Write(out)
	}
}

// Do calls a tool and logs it. status is 200, 404 for a tool that is not
// there, 429 when too much was called, 500 for arguments of a wrong type.
func (s *Server) Do(name string, args packfile.Value) (status int, answer packfile.Value) {
	return s.do(name, args, args)
}

// do is Do with the request's body as it came.
func (s *Server) do(name string, args, body packfile.Value) (status int, answer packfile.Value) {
	now := s.cfg.Now()
	s.mu.RLock()
	c := &call{s: s, sc: s.sc, user: s.user, now: now}
	full := len(s.requests) >= maxCalls || s.kept > maxKept
	s.mu.RUnlock()
	if full {
		return http.StatusTooManyRequests, packfile.Obj("detail", fmt.Sprintf("more than %d calls or %d bytes of answers", maxCalls, maxKept))
	}
	known := slices.Contains(clawbench.Tools, name)
	status = http.StatusOK
	if known {
		var err error
		if answer, err = c.do(name, args); err != nil {
			known, status = false, http.StatusInternalServerError
			answer = packfile.Obj("detail", "Internal Server Error")
		}
	} else {
		quoted := make([]string, len(clawbench.Tools))
		for i, n := range clawbench.Tools {
			quoted[i] = packfile.Repr(n)
		}
		status = http.StatusNotFound
		answer = packfile.Obj("detail", "Unknown tool: "+name+". Known tools: ["+strings.Join(quoted, ", ")+"].")
	}
	ts := now.UTC().Format("2006-01-02T15:04:05.000000+00:00")
	req := Request{TS: ts, Tool: name, Body: body, Status: status, Success: known}
	done := Call{TS: ts, Tool: name, Args: args, Response: answer, Summary: plain.First(answer.PyRepr(), 200)}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	if known {
		s.calls = append(s.calls, done)
	}
	s.kept += len(answer.Compact()) + len(body.Compact())
	s.mu.Unlock()
	if s.cfg.Log != nil {
		if known {
			s.log(c.sc.name+"_calls.jsonl", done)
		}
		s.log(c.sc.name+"_all_requests.jsonl", req)
	}
	return status, answer
}

func (s *Server) log(name string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = s.cfg.Log(name, append(b, '\n'))
	}
	if err != nil {
		s.cfg.Slog.Warn("mock tools: writing a log failed", "log", name, "err", err)
	}
}
