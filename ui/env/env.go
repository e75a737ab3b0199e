// Package env serves environments (package environment) to trainers over HTTP, in
// the forms that their libraries speak: task and session routes of ORS, OpenEnv's
// WebSocket /ws and JSON-RPC /mcp, NeMo Gym's /seed_session, tools, /verify and /run.
// docs/environments.md lists every route.
package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
)

// Limits of a request and of a reply's list.
const (
	maxBody = 1 << 20 // bytes
	maxList = 10_000  // tasks in one reply
)

// split is the only split that is served: what is hidden or held back is not here.
const split = "train"

// Server serves one environment.
type Server struct {
	Sessions *environment.Sessions
	Log      *slog.Logger
	// Runner plays whole episodes of an agent for POST /run, each within Whole (1 h
	// by default); nil: there is none.
	Runner environment.Runner
	Whole  time.Duration

	next atomic.Int64 // the task of who names none
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	m := &routes{mux: http.NewServeMux()}
	s.register(m)
	// No page of a browser may play here: what it sends tells that it is of another origin.
	return http.NewCrossOriginProtection().Handler(m.mux)
}

func (s *Server) register(m *routes) {
	s.ors(m)
	s.openEnv(m)
	s.nemo(m)
	m.HandleFunc("POST /run", s.run)
	m.HandleFunc("GET /openapi.json", s.openAPI)
}

// pick is what a request says of the task that it wants.
type pick struct {
	Task  string `json:"task"`
	Split string `json:"split"`
	Index *int   `json:"index"`
	Seed  int64  `json:"seed"`
}

// key resolves a pick to a task's key: by name, by place, else the next in turn.
func (s *Server) key(p pick) (string, error) {
	if p.Split != "" && p.Split != split {
		return "", &agon.Error{Code: "bad_field", Status: 400, Field: "split", Message: fmt.Sprintf("Invalid split: %.40q; here is %q only: hidden tasks and tasks that are held back are never served", p.Split, split)}
	}
	tasks := s.Sessions.Env.Tasks()
	switch {
	case p.Task != "":
		return p.Task, nil
	case p.Index != nil:
		i := *p.Index
		if i < 0 {
			i += len(tasks)
		}
		if i < 0 || i >= len(tasks) {
			return "", &agon.Error{Code: "bad_field", Status: 400, Field: "index", Limit: fmt.Sprintf("%d tasks", len(tasks)), Message: fmt.Sprintf("Invalid index: %d of %d tasks", *p.Index, len(tasks))}
		}
		return tasks[i].Key, nil
	}
	return tasks[int((s.next.Add(1)-1)%int64(len(tasks)))].Key, nil
}

// read decodes a body; one that is empty is {}.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &agon.Error{Code: "too_large", Status: 413, Field: "body", Limit: fmt.Sprintf("%d bytes", maxBody), Message: fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case err != nil:
		return &agon.Error{Code: "bad_body", Status: 400, Field: "body", Message: "the body broke off"}
	case len(strings.TrimSpace(string(b))) == 0:
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return &agon.Error{Code: "bad_body", Status: 422, Field: "body", Message: "the body is not the JSON that is wanted: " + err.Error()}
	}
	return nil
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with an error: detail is where these clients look.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	var e *agon.Error
	if !errors.As(err, &e) {
		s.Log.Error("environment", "err", err)
		e = &agon.Error{Code: "failed", Status: 500, Message: "the environment failed; its log says why"}
	}
	out := map[string]any{"detail": e.Message, "code": e.Code}
	for k, v := range map[string]string{"field": e.Field, "limit": e.Limit, "mend": e.Mend} {
		if v != "" {
			out[k] = v
		}
	}
	write(w, e.Status, out)
}

// toolList is the tools as all these forms name them.
func (s *Server) toolList() []environment.Tool {
	if t := s.Sessions.Env.Tools(); t != nil {
		return t
	}
	return []environment.Tool{}
}

func (s *Server) hasTool(name string) bool {
	for _, t := range s.Sessions.Env.Tools() {
		if t.Name == name {
			return true
		}
	}
	return false
}

// reward is a reply's reward: null until the episode is over.
func reward(r *environment.Reply) *float64 {
	if r == nil || !r.Done {
		return nil
	}
	v := r.Reward
	return &v
}
