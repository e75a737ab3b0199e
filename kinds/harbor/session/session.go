// Package session hands boxes of this machine to other programs over HTTP: Harbor,
// Inspect and verifiers use them by the thin shims of ../sdk. Who holds the token
// may do with a box what he likes; a box may do nothing outside itself.
package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Bounds of requests.
const (
	MaxBody     = 1 << 20     // of JSON
	MaxTransfer = 1 << 30     // of a file or a tree
	MaxOutput   = 8 << 20     // of each stream of a command that is answered
	MaxWall     = 6 * 60 * 60 // seconds
	maxEnv      = 256
	maxArg      = 100 << 10
)

// ToolsDir is where a box has the tools that Config.Tools holds, first in its PATH.
const ToolsDir = "/opt/agon/tools"

// Config says what boxes there may be.
type Config struct {
	Driver sandbox.Driver
	Roots  *rootfs.Roots
	Token  string        // whoever sends it may do everything here; never empty
	Max    int           // boxes at a time; 0: 32
	Most   agon.Limits   // of one box
	Idle   time.Duration // after which a box that nobody asks is closed; 0: an hour
	// Door is a URL that boxes reach at 127.0.0.1:8000, such as a gateway's; "" for none.
	Door string
	// Tools is a directory of programs that stand first in the PATH of boxes; "" for none.
	Tools string
	Log   *slog.Logger
	Now   func() time.Time
}

// Server is the HTTP API over boxes.
type Server struct {
	c   Config
	mux *http.ServeMux

	mu    sync.Mutex
	boxes map[string]*held // by name
}

// held is a box and who is with it.
type held struct {
	Box
	digest  string
	ready   chan struct{} // closed when box or err is set
	box     sandbox.Box
	err     error
	wall    time.Duration
	busy    int
	touched time.Time
}

// Box is a box as it is shown.
type Box struct {
	ID      string    `json:"id"`
	Image   string    `json:"image"` // digest; "": the machine's own tree
	Workdir string    `json:"workdir"`
	Driver  string    `json:"driver"`
	Root    bool      `json:"root"`
	Created time.Time `json:"created"`
}

// Create is what a box is asked for. The same name asked for again is the same box.
type Create struct {
	Name      string            `json:"name"`
	Image     string            `json:"image"`
	Workdir   string            `json:"workdir"`
	Env       map[string]string `json:"env"`
	CPUs      float64           `json:"cpus"`
	MemoryMB  int64             `json:"memory_mb"`
	StorageMB int64             `json:"storage_mb"`
	Hostnames []string          `json:"hostnames"`
}

// Exec is a command: a line for sh, or words.
type Exec struct {
	Command    string            `json:"command"`
	Args       []string          `json:"args"`
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	User       any               `json:"user"` // a name, a number or null
	TimeoutSec float64           `json:"timeout_sec"`
	Stdin      []byte            `json:"stdin"`
}

// Result is how a command ended.
type Result struct {
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	ReturnCode int    `json:"return_code"`
	Limit      string `json:"limit,omitempty"` // of the box, that ended it: wall, memory, output …
	Truncated  bool   `json:"truncated,omitempty"`
	MS         int64  `json:"ms"`
}

// New makes a server. Close ends its boxes.
func New(c Config) (*Server, error) {
	if c.Token == "" {
		return nil, errors.New("session: no token")
	}
	if c.Max <= 0 {
		c.Max = 32
	}
	if c.Idle <= 0 {
		c.Idle = time.Hour
	}
	s := &Server{c: c, mux: http.NewServeMux(), boxes: map[string]*held{}}
	s.mux.HandleFunc("GET /v1/boxes", s.list)
	s.mux.HandleFunc("POST /v1/boxes", s.create)
	s.mux.HandleFunc("GET /v1/boxes/{id}", s.view)
	s.mux.HandleFunc("DELETE /v1/boxes/{id}", s.remove)
	s.mux.HandleFunc("POST /v1/boxes/{id}/exec", s.exec)
	s.mux.HandleFunc("PUT /v1/boxes/{id}/file", s.putFile)
	s.mux.HandleFunc("GET /v1/boxes/{id}/file", s.getFile)
	s.mux.HandleFunc("PUT /v1/boxes/{id}/tree", s.putTree)
	s.mux.HandleFunc("GET /v1/boxes/{id}/tree", s.getTree)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.c.Token))
	if !ok || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		refuse(w, http.StatusUnauthorized, "unauthorised", "authorization", "want the header Authorization: Bearer TOKEN with the server's token")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Run closes boxes that nobody asks for, until ctx ends; then all.
func (s *Server) Run(ctx context.Context) {
	t := time.NewTicker(min(s.c.Idle/4+time.Millisecond, time.Minute))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			s.Close()
			return
		case <-t.C:
			s.reap(s.c.Now())
		}
	}
}

// reap closes the boxes that have been idle.
func (s *Server) reap(now time.Time) {
	s.mu.Lock()
	var out []*held
	for id, h := range s.boxes {
		if h.busy == 0 && now.Sub(h.touched) >= s.c.Idle {
			delete(s.boxes, id)
			out = append(out, h)
		}
	}
	s.mu.Unlock()
	for _, h := range out {
		s.c.Log.Info("box closed: nobody asked for it", "box", h.ID)
		s.end(h)
	}
}

// Close ends all boxes.
func (s *Server) Close() {
	s.mu.Lock()
	all := s.boxes
	s.boxes = map[string]*held{}
	s.mu.Unlock()
	for _, h := range all {
		s.end(h)
	}
}

func (s *Server) end(h *held) {
	<-h.ready
	if h.box == nil {
		return
	}
	if err := h.box.Close(); err != nil {
		s.c.Log.Warn("box not closed", "box", h.ID, "error", err)
	}
}

var names = lazyregexp.New(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var in Create
	if !decode(w, r, &in) {
		return
	}
	if in.Name == "" {
		in.Name = "box-" + rand.Text()
	}
	l, field, why := s.limits(in)
	switch {
	case !names().MatchString(in.Name):
		field, why = "name", "want letters, digits, . _ and -, at most 128"
	case in.Workdir != "" && !absolute(in.Workdir):
		field, why = "workdir", "want an absolute path"
	case why == "" && len(in.Env) > maxEnv:
		field, why = "env", fmt.Sprintf("more than %d", maxEnv)
	}
	env, bad := environ(in.Env)
	if why == "" && bad != "" {
		field, why = "env", bad
	}
	if why != "" {
		refuse(w, http.StatusUnprocessableEntity, "bad_field", field, why)
		return
	}
	b, err := json.Marshal(in)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "bad_field", "", err.Error())
		return
	}
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	s.mu.Lock()
	h, there := s.boxes[in.Name]
	if !there {
		if len(s.boxes) >= s.c.Max {
			s.mu.Unlock()
			w.Header().Set("Retry-After", "10")
			refuse(w, http.StatusTooManyRequests, "too_many", "", fmt.Sprintf("%d boxes are open, which is the most: close one", s.c.Max))
			return
		}
		h = &held{Box: Box{ID: in.Name}, digest: digest, ready: make(chan struct{}), touched: s.c.Now()}
		s.boxes[in.Name] = h
	}
	h.busy++
	s.mu.Unlock()
	defer s.leave(h)
	if there {
		if h.digest != digest {
			refuse(w, http.StatusConflict, "name_taken", "name", "a box of this name is open and was asked for otherwise")
			return
		}
		<-h.ready
	} else {
		// A caller that goes away finds the box by its name.
		s.open(context.WithoutCancel(r.Context()), h, in, env, l)
		close(h.ready)
		if h.err != nil {
			s.mu.Lock()
			delete(s.boxes, in.Name)
			s.mu.Unlock()
		}
	}
	if h.err != nil {
		fail(w, h.err)
		return
	}
	status := http.StatusCreated
	if there {
		status = http.StatusOK
	}
	send(w, status, h.Box)
}

// limits are those that are asked for, within the most there is.
func (s *Server) limits(in Create) (l agon.Limits, field, why string) {
	l = s.c.Most
	for _, x := range []struct {
		field  string
		asked  float64
		factor float64
		at     *int64
	}{{"cpus", in.CPUs, 1000, &l.CPUMilli}, {"memory_mb", float64(in.MemoryMB), 1 << 20, &l.MemoryBytes}, {"storage_mb", float64(in.StorageMB), 1 << 20, &l.DiskBytes}} {
		v := x.asked * x.factor
		switch {
		case x.asked == 0:
		case !(x.asked > 0) || v < 1:
			return l, x.field, "want a number above 0"
		case v > float64(*x.at):
			return l, x.field, fmt.Sprintf("%v is more than this machine gives a box: %v", x.asked, float64(*x.at)/x.factor)
		default:
			*x.at = int64(v)
		}
	}
	return l, "", ""
}

// open starts a box. Its commands are its root user where the driver can do that.
func (s *Server) open(ctx context.Context, h *held, in Create, env []string, l agon.Limits) {
	root := s.c.Roots.Own()
	if in.Image != "" {
		var err error
		if root, err = s.c.Roots.Of(ctx, in.Image); err != nil {
			h.err = &agon.Error{Code: "bad_image", Status: http.StatusUnprocessableEntity, Field: "image", Message: err.Error()}
			return
		}
	}
	h.Image, h.Workdir, h.Driver, h.Root, h.Created = root.Image, in.Workdir, s.c.Driver.Info().Name, true, s.c.Now()
	if h.Workdir == "" {
		if h.Workdir = root.WorkingDir; h.Workdir == "" || h.Workdir == "/" {
			h.Workdir = "/app"
		}
	}
	h.wall = time.Duration(l.WallMS) * time.Millisecond
	l.OutputBytes = MaxTransfer
	spec := sandbox.Spec{
		Name: "session", Rootfs: root.Dir, Root: true, Limits: l, Hostnames: in.Hostnames,
		Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/tmp"}},
		Env:    root.Environ("LANG=C.UTF-8", "LC_ALL=C.UTF-8", "HOME=/root", "PYTHONDONTWRITEBYTECODE=1", "USER=root"),
	}
	if s.c.Door != "" {
		spec.Doors = []sandbox.Door{{Listen: "127.0.0.1:8000", Target: s.c.Door}}
		spec.Env = append(spec.Env, "OPENAI_BASE_URL=http://127.0.0.1:8000/v1", "ANTHROPIC_BASE_URL=http://127.0.0.1:8000")
	}
	if s.c.Tools != "" {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: s.c.Tools, Target: ToolsDir, Exec: true})
		for i, e := range spec.Env {
			if v, ok := strings.CutPrefix(e, "PATH="); ok {
				spec.Env[i] = "PATH=" + ToolsDir + ":" + v
			}
		}
		spec.Env = append(spec.Env, "AGON_PYTHON="+root.Python)
	}
	spec.Env = append(spec.Env, env...)
	box, err := s.c.Driver.Start(ctx, spec)
	if err != nil {
		h.err = err
		return
	}
	var out bytes.Buffer
	ready := `chmod 1777 /tmp; mkdir -p "$1" /root/.local/bin; [ -e /root/.local/bin/env ] || : >/root/.local/bin/env; printf '127.0.0.1 localhost box\n::1 localhost\n' >/etc/hosts 2>/dev/null; :`
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", ready, "sh", h.Workdir}, Dir: "/", Stderr: &out, Untrusted: true})
	if err == nil && x.Code != 0 {
		err = fmt.Errorf("%w: prepare the box: exit %d: %.200s", sandbox.ErrHost, x.Code, out.String())
	}
	if err != nil {
		h.err = errors.Join(err, box.Close())
		return
	}
	h.box = box
}

// with finds a box and marks it as asked for. The caller leaves it.
func (s *Server) with(w http.ResponseWriter, r *http.Request) *held {
	id := r.PathValue("id")
	s.mu.Lock()
	h := s.boxes[id]
	if h != nil {
		h.busy++
	}
	s.mu.Unlock()
	if h == nil {
		refuse(w, http.StatusNotFound, "not_found", "id", plain.Line("no box is called "+plain.Short(id, 128)+": it was closed, or idle too long"))
		return nil
	}
	<-h.ready
	if h.box == nil {
		s.leave(h)
		refuse(w, http.StatusNotFound, "not_found", "id", "the box could not be started")
		return nil
	}
	return h
}

func (s *Server) leave(h *held) {
	s.mu.Lock()
	h.busy--
	h.touched = s.c.Now()
	s.mu.Unlock()
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	out := []Box{}
	for _, h := range s.boxes {
		select {
		case <-h.ready:
			out = append(out, h.Box)
		default:
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Box) int { return strings.Compare(a.ID, b.ID) })
	send(w, http.StatusOK, map[string]any{"items": out})
}

func (s *Server) view(w http.ResponseWriter, r *http.Request) {
	if h := s.with(w, r); h != nil {
		defer s.leave(h)
		send(w, http.StatusOK, h.Box)
	}
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	h := s.boxes[id]
	delete(s.boxes, id)
	s.mu.Unlock()
	if h != nil {
		s.end(h)
	}
	w.WriteHeader(http.StatusNoContent) // one that is gone is gone
}

func environ(m map[string]string) (out []string, bad string) {
	if len(m) > maxEnv {
		return nil, fmt.Sprintf("more than %d", maxEnv)
	}
	for k, v := range m {
		if k == "" || len(k) > 256 || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) || len(v) > maxArg {
			return nil, fmt.Sprintf("%.60q is not a variable, or longer than %d bytes", k, maxArg)
		}
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out, ""
}

func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("something stands behind the object")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "too_large", "body", fmt.Sprintf("more than %d bytes", MaxBody))
	case err != nil:
		refuse(w, http.StatusUnprocessableEntity, "bad_json", "body", plain.Short(err.Error(), 300))
	}
	return err == nil
}

func fail(w http.ResponseWriter, err error) {
	var coded *agon.Error
	switch {
	case errors.As(err, &coded) && coded.Status != 0:
		refuse(w, coded.Status, coded.Code, coded.Field, coded.Message)
	case errors.Is(err, sandbox.ErrSpec):
		refuse(w, http.StatusUnprocessableEntity, "bad_box", "", plain.Short(err.Error(), 500))
	default:
		refuse(w, http.StatusServiceUnavailable, "host", "", plain.Short(err.Error(), 500))
	}
}

// refuse answers one problem, which names the field.
func refuse(w http.ResponseWriter, status int, code, field, why string) {
	if field != "" && field != "authorization" {
		why = field + ": " + why
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "field": field, "detail": why})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who has gone away needs no answer
}
