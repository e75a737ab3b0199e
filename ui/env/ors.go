package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
)

// block is a piece of text as ORS sends it.
type block struct {
	Text   string          `json:"text"`
	Detail json.RawMessage `json:"detail"`
	Type   string          `json:"type"`
}

func text(s string) []block { return []block{{Text: s, Detail: json.RawMessage("null"), Type: "text"}} }

// ors are the task and session routes of ORS. Each stands with the environment's
// name before it and, for clients that name none, without.
func (s *Server) ors(m *routes) {
	m.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]any{"version": agon.Version, "build_sha": nil})
	})
	m.HandleFunc("GET /list_environments", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, []string{s.Sessions.Env.Name()})
	})
	both := func(method, path string, h http.HandlerFunc) {
		m.HandleFunc(method+" "+path, h)
		m.HandleFunc(method+" /"+s.Sessions.Env.Name()+path, h)
	}
	both("GET", "/splits", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, []map[string]string{{"name": split, "type": "train"}})
	})
	both("GET", "/tools", s.orsTools)
	both("POST", "/tasks", s.orsTasks)
	both("POST", "/num_tasks", func(w http.ResponseWriter, r *http.Request) {
		var p pick
		if err := s.picked(w, r, &p); err != nil {
			s.refuse(w, err)
			return
		}
		write(w, 200, map[string]int{"num_tasks": len(s.Sessions.Env.Tasks())})
	})
	both("POST", "/task", func(w http.ResponseWriter, r *http.Request) {
		var p pick
		err := s.picked(w, r, &p)
		key := ""
		if err == nil {
			key, err = s.key(p)
		}
		var t environment.Task
		if err == nil {
			t, err = s.Sessions.Task(key)
		}
		if err != nil {
			s.refuse(w, err)
			return
		}
		write(w, 200, map[string]any{"task": t, "env_name": s.Sessions.Env.Name()})
	})
	both("POST", "/task_range", s.orsRange)

	m.HandleFunc("POST /create_session", func(w http.ResponseWriter, _ *http.Request) {
		// Nothing is kept of it: the session begins with /create.
		sse(w, newID(), "")
	})
	m.HandleFunc("POST /create", s.orsCreate)
	m.HandleFunc("POST /delete", s.orsDelete)
	m.HandleFunc("POST /delete_session", s.orsDelete)
	m.HandleFunc("POST /ping", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.Sessions.Get(sid(r)); err != nil {
			s.refuse(w, err)
			return
		}
		write(w, 200, map[string]string{"status": "ok"})
	})
	both("GET", "/task_tools", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.Sessions.Get(sid(r)); err != nil {
			s.refuse(w, err)
			return
		}
		s.orsTools(w, r)
	})
	both("GET", "/prompt", func(w http.ResponseWriter, r *http.Request) {
		x, err := s.Sessions.Get(sid(r))
		if err != nil {
			s.refuse(w, err)
			return
		}
		write(w, 200, text(x.Task.Prompt))
	})
	both("GET", "/messages", func(w http.ResponseWriter, r *http.Request) {
		x, err := s.Sessions.Get(sid(r))
		if err != nil {
			s.refuse(w, err)
			return
		}
		write(w, 200, []map[string]any{{"role": "user", "blocks": text(x.Task.Prompt), "detail": nil}})
	})
	both("POST", "/call", s.orsCall)
}

// sid is the session that a request names.
func sid(r *http.Request) string { return r.Header.Get("X-Session-ID") }

// picked reads a body that names a split.
func (s *Server) picked(w http.ResponseWriter, r *http.Request, p *pick) error {
	if err := read(w, r, p); err != nil {
		return err
	}
	if p.Split != "" && p.Split != split {
		_, err := s.key(*p)
		return err
	}
	return nil
}

func (s *Server) orsTools(w http.ResponseWriter, _ *http.Request) {
	write(w, 200, map[string]any{"tools": s.toolList(), "terminal_tool": nil, "supports_score_group": false, "message_block_types": []string{"text"}})
}

func (s *Server) orsTasks(w http.ResponseWriter, r *http.Request) {
	var p pick
	if err := s.picked(w, r, &p); err != nil {
		s.refuse(w, err)
		return
	}
	tasks := s.Sessions.Env.Tasks()
	if len(tasks) > maxList {
		s.refuse(w, &agon.Error{Code: "too_many", Status: 400, Field: "tasks", Limit: fmt.Sprintf("%d tasks", maxList), Message: fmt.Sprintf("%d tasks are too many for one reply", len(tasks)), Mend: "ask for num_tasks and task_range"})
		return
	}
	write(w, 200, map[string]any{"tasks": tasks, "env_name": s.Sessions.Env.Name()})
}

// orsRange answers a slice of the tasks; places count from the end where they are negative.
func (s *Server) orsRange(w http.ResponseWriter, r *http.Request) {
	var p struct {
		pick
		Start *int `json:"start"`
		Stop  *int `json:"stop"`
	}
	err := read(w, r, &p)
	if err == nil && p.Split != "" && p.Split != split {
		_, err = s.key(p.pick)
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	tasks := s.Sessions.Env.Tasks()
	place := func(n *int, or int) int {
		if n == nil {
			return or
		}
		if *n < 0 {
			return max(0, *n+len(tasks))
		}
		return min(*n, len(tasks))
	}
	from, to := place(p.Start, 0), place(p.Stop, len(tasks))
	to = min(max(from, to), from+maxList)
	write(w, 200, map[string]any{"tasks": tasks[from:to], "env_name": s.Sessions.Env.Name()})
}

func (s *Server) orsCreate(w http.ResponseWriter, r *http.Request) {
	var p struct {
		pick
		Env  *string `json:"env_name"`
		Spec *struct {
			Key string `json:"key"`
		} `json:"task_spec"`
		Toolset *string `json:"toolset_name"`
	}
	err := read(w, r, &p)
	switch {
	case err != nil:
	case sid(r) == "":
		err = &agon.Error{Code: "bad_field", Status: 400, Field: "X-Session-ID", Message: "the header X-Session-ID is missing", Mend: "ask /create_session for one"}
	case p.Env != nil && !strings.EqualFold(*p.Env, s.Sessions.Env.Name()):
		err = &agon.Error{Code: "not_found", Status: 404, Field: "env_name", Message: fmt.Sprintf("there is no environment %.40q here, only %s", *p.Env, s.Sessions.Env.Name())}
	case p.Toolset != nil:
		err = &agon.Error{Code: "bad_field", Status: 400, Field: "toolset_name", Message: fmt.Sprintf("unknown toolset %.40q: a kind's own tools are the only ones", *p.Toolset)}
	case (p.Spec == nil) == (p.Index == nil):
		err = &agon.Error{Code: "bad_field", Status: 422, Field: "task_spec", Message: "Provide either task_spec or both split and index, not both/neither"}
	case p.Spec != nil && p.Spec.Key == "":
		err = &agon.Error{Code: "bad_field", Status: 422, Field: "task_spec.key", Message: "task_spec.key is missing: send a task as /tasks gave it"}
	}
	key := ""
	if err == nil && p.Spec != nil {
		key = p.Spec.Key
	} else if err == nil {
		key, err = s.key(p.pick)
	}
	if err == nil {
		err = s.orsOpen(r.Context(), sid(r), key, p.Seed)
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	write(w, 200, map[string]string{"sid": sid(r)})
}

// orsOpen begins a session. Asked again by a client that lost the answer it does nothing.
func (s *Server) orsOpen(ctx context.Context, id, key string, seed int64) error {
	_, err := s.Sessions.Open(ctx, id, key, seed)
	var e *agon.Error
	if errors.As(err, &e) && e.Code == "session_exists" {
		if x, gone := s.Sessions.Get(id); gone == nil && x.Fresh(key, seed) {
			return nil
		}
	}
	return err
}

func (s *Server) orsDelete(w http.ResponseWriter, r *http.Request) {
	if x, err := s.Sessions.Get(sid(r)); err == nil {
		_ = x.Close()
	}
	write(w, 200, map[string]string{"sid": sid(r)})
}

func (s *Server) orsCall(w http.ResponseWriter, r *http.Request) {
	var p struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
		Task  string          `json:"task_id"`
	}
	err := read(w, r, &p)
	var x *environment.Session
	if err == nil {
		x, err = s.Sessions.Get(sid(r))
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	fail := func(reason, format string, args ...any) map[string]any {
		return map[string]any{"ok": false, "error": fmt.Sprintf(format, args...), "reason": reason}
	}
	var out map[string]any
	if !s.hasTool(p.Name) {
		out = fail("not_found", "%.80q is not a valid tool", p.Name)
	} else {
		reply, err := x.Call(r.Context(), p.Task, p.Name, p.Input)
		switch {
		case errors.Is(err, environment.ErrOver):
			out = fail("episode_finished", "the episode is over")
		case err != nil:
			s.refuse(w, err)
			return
		case reply.Refused:
			out = fail("input_validation", "Tool input validation error: %s", reply.Text)
		default:
			var meta any
			if reply.Fields != nil {
				meta = reply.Fields
			}
			out = map[string]any{"ok": true, "output": map[string]any{"blocks": text(reply.Text), "metadata": meta, "reward": reward(&reply), "finished": reply.Done}}
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		s.refuse(w, err)
		return
	}
	id := p.Task
	if id == "" {
		id = newID()
	}
	sse(w, id, string(b))
}

// sse sends a finished call as the two events that ORS's clients wait for.
func sse(w http.ResponseWriter, id, data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = fmt.Fprintf(w, "event: task_id\ndata: %s\n\nevent: end\ndata: %s\n\n", strings.NewReplacer("\r", "", "\n", "").Replace(id), data)
}
