package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
)

// ServeConfig configures Serve: the runner alone, without an arena.
type ServeConfig struct {
	// Getenv reads the variables of the sandbox protocol: CASTER_AGENT_PATH,
	// SANDBOX_HOST (127.0.0.1), SANDBOX_PORT (8000; 0 takes a free one),
	// ENTRYPOINT_TIMEOUT_SECONDS (120), CASTER_MINER_UID, CASTER_EVALUATION_RUN_ID
	// and, of the oldest form, CASTER_HOST_CONTAINER_URL.
	Getenv func(string) string
	// Driver and Rootfs make the box that the script runs in.
	Driver sandbox.Driver
	Rootfs string
	// Mounts and Env are shown to the box besides, as installed libraries are.
	Mounts []sandbox.Mount
	Env    []string
	// Bare runs the script without a box: only where something else is one.
	Bare bool
	// Ready is called with the address when it answers. Optional.
	Ready func(addr string)
	// Log gets lines for people and what scripts print, line by line. Optional.
	Log func(line string)
}

// serveMemory bounds a script that is served alone, in bytes.
const serveMemory = 1 << 30

type serveVars struct {
	agent, listen, host string
	timeout             time.Duration
	env                 []string
}

func readVars(getenv func(string) string) (serveVars, error) {
	var v serveVars
	if getenv("CASTER_AGENT_MODULE") != "" {
		return v, errors.New("CASTER_AGENT_MODULE is not supported: set CASTER_AGENT_PATH")
	}
	or := func(name, def string) string {
		if s := getenv(name); s != "" {
			return s
		}
		return def
	}
	v.agent = or("CASTER_AGENT_PATH", getenv("AGENT_PATH"))
	p, err := strconv.ParseUint(or("SANDBOX_PORT", "8000"), 10, 16)
	if err != nil {
		return v, errors.New("SANDBOX_PORT: want a port")
	}
	v.listen = net.JoinHostPort(or("SANDBOX_HOST", "127.0.0.1"), strconv.FormatUint(p, 10))
	sec, err := strconv.ParseFloat(or("ENTRYPOINT_TIMEOUT_SECONDS", "120"), 64)
	if err != nil || !(sec > 0 && sec <= 86_400) {
		return v, errors.New("ENTRYPOINT_TIMEOUT_SECONDS: want a number above 0, at most 86400")
	}
	v.timeout = time.Duration(sec * float64(time.Second))
	v.host = getenv("CASTER_HOST_CONTAINER_URL")
	for _, name := range []string{"CASTER_MINER_UID", "CASTER_EVALUATION_RUN_ID"} {
		if s := getenv(name); s != "" {
			v.env = append(v.env, name+"="+s)
		}
	}
	return v, nil
}

// Serve serves the sandbox protocol for one script until ctx ends.
func Serve(ctx context.Context, c ServeConfig) error {
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Ready == nil {
		c.Ready = func(string) {}
	}
	v, err := readVars(c.Getenv)
	if err != nil {
		return &agon.Error{Code: "usage", Status: http.StatusBadRequest, Message: err.Error()}
	}
	if c.Bare {
		return serveBare(ctx, c, v)
	}
	if c.Driver == nil {
		return errors.New("serve sandbox: no box driver is given")
	}
	dir, err := stage(v.agent)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if v.agent == "" {
		c.Log("CASTER_AGENT_PATH is not set: every call will be answered 404")
	}
	s := &server{c: c, v: v, dir: dir, hosts: map[string]hostRef{}}
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for tool calls: %w", err)
	}
	front, err := net.Listen("tcp", v.listen)
	if err != nil {
		_ = relay.Close()
		return &agon.Error{Code: "listen", Status: http.StatusConflict, Field: "SANDBOX_PORT", Message: fmt.Sprintf("cannot listen on %s: %v", v.listen, err)}
	}
	s.relay = "http://" + relay.Addr().String()
	s.ctx = ctx
	defer s.drop(nil)
	if _, err := s.warm(ctx); err != nil { // the first caller should not wait for it, nor find out that no box works
		_, _ = relay.Close(), front.Close()
		return err
	}
	var wg sync.WaitGroup
	serve := func(l net.Listener, h http.Handler) *http.Server {
		srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
		wg.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				c.Log("serving ended: " + err.Error())
			}
		})
		return srv
	}
	a, b := serve(front, http.HandlerFunc(s.front)), serve(relay, http.HandlerFunc(s.tool))
	c.Ready(front.Addr().String())
	<-ctx.Done()
	_, _ = a.Close(), b.Close()
	wg.Wait()
	return ctx.Err()
}

// stage copies the script to a directory that boxes can read. A script that
// is not there is the caller's to find out, by 404.
func stage(agent string) (string, error) {
	dir, err := os.MkdirTemp("", "agon-script-")
	if err != nil {
		return "", fmt.Errorf("stage the script: %w", err)
	}
	err = os.Chmod(dir, 0o755)
	if err == nil && agent != "" {
		var b []byte
		if b, err = readScript(agent); err == nil {
			err = os.WriteFile(filepath.Join(dir, AgentFile), b, 0o644)
		} else if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("stage the script: %w", err)
	}
	return dir, nil
}

func readScript(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, 1_000_001))
	if err == nil && len(b) > 1_000_000 {
		err = fmt.Errorf("%s is larger than 1000000 bytes", path)
	}
	return b, err
}

// server puts the protocol in front of a box. Callers name their tool host by
// header; the box has one door, behind which tool finds the caller's host again.
type server struct {
	c     ServeConfig
	v     serveVars
	dir   string
	relay string
	ctx   context.Context // of Serve: boxes live as long

	mu    sync.Mutex         // guards below
	box   *warmBox           // nil: none runs
	hosts map[string]hostRef // by session
}

type hostRef struct {
	url string
	n   int // calls that named it and are under way
}

// warm returns the box, or starts one. One caller starts it, others wait.
func (s *server) warm(ctx context.Context) (*warmBox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil {
		select {
		case <-s.box.ended:
			s.box.close()
			s.box = nil
		default:
			return s.box, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	box, err := startWarm(s.ctx, warmConfig{
		rootfs: s.c.Rootfs, dir: s.dir, tools: s.relay, timeout: s.v.timeout, wall: 30 * 24 * time.Hour, env: append(slices.Clone(s.v.env), s.c.Env...), mounts: s.c.Mounts,
		// It is the only box here, and its calls run side by side: every processor is its.
		limits: agon.Limits{MemoryBytes: serveMemory, Pids: 128, DiskBytes: 128 << 20, OutputBytes: 1 << 40, CPUMilli: int64(1000 * runtime.NumCPU())},
		open:   s.c.Driver.Start,
		output: func(_ string, l outputLine) {
			s.c.Log(fmt.Sprintf("%s %s: %s", plain.Short(l.Session, 64), l.Stream, plain.Short(l.Message, 4000)))
		},
	})
	if err != nil {
		return nil, err
	}
	s.box = box
	return box, nil
}

// drop ends the box if it is still old; nil ends any.
func (s *server) drop(old *warmBox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil && (old == nil || s.box == old) {
		s.box.close()
		s.box = nil
	}
}

const maxRequest = 8 << 20

// front hands a caller's request to the runner in the box.
func (s *server) front(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, `{"detail":"body larger than 8 MiB"}`, http.StatusRequestEntityTooLarge)
		return
	}
	header := http.Header{"Content-Type": {"application/json"}}
	copySession(r.Header.Get, header.Set)
	host := first(r.Header.Get(headerHost), r.Header.Get(headerHost2), s.v.host)
	if session := sessionOf(r.Header.Get); host != "" {
		header.Set(headerHost, "http://"+toolsDoor)
		defer s.remember(session, host)()
	}
	box, err := s.warm(r.Context())
	if err != nil {
		failed(w, "the box could not be started")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.v.timeout+grace)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://sandbox"+r.URL.EscapedPath(), bytes.NewReader(body))
	if err != nil {
		failed(w, "the request could not be handed on")
		return
	}
	req.Header = header
	resp, err := box.client.Do(req)
	if err != nil {
		if r.Context().Err() != nil {
			return // the caller has gone
		}
		s.drop(box)
		failed(w, "EOFError")
		return
	}
	defer func() { _ = resp.Body.Close() }()
	for _, h := range []string{"Content-Type", "Content-Length"} {
		if v := resp.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, 65<<20))
}

// failed answers what the protocol has for a worker that is no more.
func failed(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, `{"detail":{"error":"entrypoint worker failed","exception":%q}}`, why)
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// remember keeps a session's tool host while a call is under way.
func (s *server) remember(session, host string) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[session] = hostRef{host, s.hosts[session].n + 1}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h := s.hosts[session]
		if h.n--; h.n <= 0 {
			delete(s.hosts, session)
		} else {
			s.hosts[session] = h
		}
	}
}

// tool relays a script's tool call to the host that its caller named, and to nothing else.
func (s *server) tool(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h, ok := s.hosts[sessionOf(r.Header.Get)]
	s.mu.Unlock()
	u, err := url.Parse(h.url)
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || r.URL.Path != tools.Path || r.Method != http.MethodPost {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"detail":%q}`, tools.TextSession)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, strings.TrimRight(h.url, "/")+tools.Path, http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, `{"detail":"tool execution failed"}`, http.StatusBadRequest)
		return
	}
	req.ContentLength = r.ContentLength
	req.Header = http.Header{"Content-Type": {"application/json"}}
	copySession(r.Header.Get, req.Header.Set)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		http.Error(w, `{"detail":"tool execution failed"}`, http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, 64<<20))
}

// serveBare runs the runner as a child of this process, without a box.
func serveBare(ctx context.Context, c ServeConfig, v serveVars) error {
	args, err := runnerArgs()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(v.listen)
	if err != nil {
		return err
	}
	env := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp", "PYTHONHASHSEED": "0",
		"CASTER_AGENT_PATH": v.agent, "SANDBOX_HOST": host, "SANDBOX_PORT": port, "CASTER_HOST_CONTAINER_URL": v.host,
		"ENTRYPOINT_TIMEOUT_SECONDS": strconv.FormatFloat(v.timeout.Seconds(), 'g', -1, 64),
		"AGON_WORKER_MEMORY":         strconv.Itoa(serveMemory), "AGON_WATCH_STDIN": "1",
	}
	if p := c.Getenv("PATH"); p != "" {
		env["PATH"] = p
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, k+"="+env[k])
	}
	cmd.Env = append(cmd.Env, v.env...)
	in, err := cmd.StdinPipe() // held open: the runner ends with this process
	if err != nil {
		return fmt.Errorf("start the runner: %w", err)
	}
	defer func() { _ = in.Close() }()
	cmd.Cancel = in.Close
	cmd.WaitDelay = 3 * time.Second
	say := sync.OnceFunc(func() { c.Ready(v.listen) })
	cmd.Stdout = &lineWriter{max: 512 << 10, line: func(b []byte) {
		if bytes.HasPrefix(b, []byte(`{"type":"ready"`)) {
			say()
		}
		c.Log(plain.Short(string(b), 4000))
	}}
	cmd.Stderr = &lineWriter{max: 64 << 10, line: func(b []byte) { c.Log(plain.Short(string(b), 4000)) }}
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run the sandbox: %w", err)
	}
	return ctx.Err()
}
