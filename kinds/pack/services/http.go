package services

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// answer is what a handler says.
type answer struct {
	status int
	body   packfile.Value
}

func ok(v packfile.Value) answer { return answer{http.StatusOK, v} }

func refuse(status int, detail string) answer { return answer{status, packfile.Obj("detail", detail)} }

func missing(what string) answer { return refuse(http.StatusNotFound, what+" not found") }

func full() answer {
	return refuse(http.StatusInsufficientStorage, fmt.Sprintf("the office holds at most %d rows and %d bytes", maxRows, maxKept))
}

// request is a request, read: body is an object where one is wanted.
type request struct {
	*http.Request
	body packfile.Value
}

func (r request) field(name string, otherwise any) packfile.Value {
	if v := r.body.Get(name); v.Kind != packfile.Absent {
		return v
	}
	return packfile.Of(otherwise)
}

// with is the object of a row that the caller fills: id first, then what was
// sent, then when. What was sent may name an id of its own.
func (r request) with(id, at string, stamp packfile.Value) packfile.Value {
	v := packfile.Obj("id", id)
	for _, k := range r.body.Keys {
		v = v.With(k, r.body.Fields[k])
	}
	return v.With(at, stamp)
}

// Handler serves everything: for who runs an evaluation, or alone.
func (s *Server) Handler() http.Handler { return s.handler(true) }

// Agent serves what an agent may reach: all but /reset and /load_fixtures, with
// which it could undo what it did.
func (s *Server) Agent() http.Handler { return s.handler(false) }

func (s *Server) handler(control bool) http.Handler {
	mux := http.NewServeMux()
	read := func(pattern string, do func(r request) answer) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, request{Request: r}, do) })
	}
	write := func(pattern string, object bool, do func(r request) answer) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				send(w, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody)))
				return
			}
			v, err := packfile.ParseLimit(b)
			switch {
			case err != nil:
				send(w, refuse(http.StatusBadRequest, "the body is not JSON"))
			case object && v.Kind != packfile.Object:
				send(w, refuse(http.StatusUnprocessableEntity, "the body is not a JSON object"))
			default:
				s.serve(w, request{r, v}, do)
			}
		})
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		send(w, ok(packfile.Obj("status", "ok", "services", []string{"email", "slack", "notion", "calendar", "gitea"}, "backend", "memory")))
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { send(w, ok(s.State())) })
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		if !control {
			send(w, refuse(http.StatusForbidden, "only who runs the evaluation may reset"))
			return
		}
		s.Reset()
		send(w, ok(packfile.Obj("status", "reset")))
	})
	mux.HandleFunc("POST /load_fixtures", func(w http.ResponseWriter, r *http.Request) {
		if !control {
			send(w, refuse(http.StatusForbidden, "only who runs the evaluation may load fixtures"))
			return
		}
		send(w, s.load(w, r))
	})

	read("/api/v2/messages", func(request) answer {
		list := s.now["emails"].list()
		return ok(packfile.Obj("total", len(list.List), "items", list))
	})
	write("POST /api/v2/messages", true, s.sendMail)
	mux.HandleFunc("DELETE /api/v1/messages/{id}", s.deleting("emails", "email", "delete", "Message"))

	read("/slack/channels", func(request) answer {
		out := packfile.Value{Kind: packfile.List}
		for _, k := range s.now["slack_channels"].keys {
			name := s.now["slack_channels"].by[k].Get("name")
			if name.Kind == packfile.Absent {
				name = packfile.Of(k)
			}
			out.List = append(out.List, packfile.Obj("id", k, "name", name))
		}
		return ok(out)
	})
	read("/slack/channels/{id}/messages", func(r request) answer {
		c, there := s.now["slack_channels"].by[r.PathValue("id")]
		if !there || len(c.Keys) == 0 {
			return missing("Channel")
		}
		return ok(listed(c.Get("messages")))
	})
	write("POST /slack/channels/{id}/messages", true, s.postMessage)
	write("POST /slack/reactions", false, func(r request) answer {
		if !s.log("slack", "reaction", r.body) {
			return full()
		}
		return ok(packfile.Obj("status", "ok"))
	})

	mux.HandleFunc("POST /notion/databases/{id}/query", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, request{Request: r}, func(request) answer { return ok(packfile.Obj("results", s.now["tasks"].list())) })
	})
	write("POST /notion/pages", true, func(r request) answer {
		return s.create("tasks", "notion", "create_page", r.with(s.id(), "created_time", s.stamp()))
	})
	write("PATCH /notion/pages/{id}", true, s.changePage)

	read("/calendar/events", func(request) answer { return ok(s.now["calendar_events"].list()) })
	write("POST /calendar/events", true, func(r request) answer {
		return s.create("calendar_events", "calendar", "create_event", r.with(s.id(), "created", s.stamp()))
	})
	mux.HandleFunc("DELETE /calendar/events/{id}", s.deleting("calendar_events", "calendar", "delete_event", "Event"))
	s.codeHost(read, write)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
			other := r.Clone(r.Context())
			other.Method = m
			if _, pattern := mux.Handler(other); pattern != "" {
				send(w, refuse(http.StatusMethodNotAllowed, "Method Not Allowed"))
				return
			}
		}
		send(w, refuse(http.StatusNotFound, "Not Found"))
	})
}

// codeHost are the routes of issues, pull requests and files.
func (s *Server) codeHost(read func(string, func(request) answer), write func(string, bool, func(request) answer)) {
	const repo = "/api/v1/repos/{owner}/{repo}"
	for path, table := range map[string]string{"/issues": "gitea_issues", "/pulls": "gitea_prs", "/git/refs": "gitea_refs", "/commits": "gitea_commits"} {
		read(repo+path, func(request) answer { return ok(s.now[table].list()) })
	}
	numbered := func(table, what string) func(request) answer {
		return func(r request) answer {
			n, err := strconv.Atoi(r.PathValue("n"))
			if err != nil {
				return refuse(http.StatusUnprocessableEntity, "the number is not a whole number")
			}
			for _, k := range s.now[table].keys {
				if v := s.now[table].by[k]; v.Get("number").Kind == packfile.Int && v.Get("number").Int == strconv.Itoa(n) {
					return ok(v)
				}
			}
			return missing(what)
		}
	}
	read(repo+"/issues/{n}", numbered("gitea_issues", "Issue"))
	read(repo+"/pulls/{n}", numbered("gitea_prs", "Pull request"))
	read(repo+"/contents/{path...}", func(r request) answer {
		for _, k := range s.now["gitea_files"].keys {
			if v := s.now["gitea_files"].by[k]; v.Get("path").Str == r.PathValue("path") {
				return ok(v)
			}
		}
		return missing("File")
	})
	write("POST "+repo+"/issues/{n}/comments", true, func(r request) answer {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil {
			return refuse(http.StatusUnprocessableEntity, "the number is not a whole number")
		}
		return s.create("gitea_comments", "gitea", "comment", packfile.Obj("id", s.id(), "issue_number", n, "body", r.field("body", ""), "user", r.field("user", "agent"), "created_at", s.stamp()))
	})
}

// listed is a list, or none where there is no list.
func listed(v packfile.Value) packfile.Value {
	if v.Kind != packfile.List {
		return packfile.Value{Kind: packfile.List}
	}
	return v
}

// serve answers one request at a time.
func (s *Server) serve(w http.ResponseWriter, r request, do func(request) answer) {
	s.mu.Lock()
	a := do(r)
	s.mu.Unlock()
	send(w, a)
}

func send(w http.ResponseWriter, a answer) {
	b, err := a.body.MarshalJSON()
	if err != nil {
		a.status, b = http.StatusInternalServerError, []byte(`{"detail":"the state cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(a.status)
	_, _ = w.Write(b)
}

func (s *Server) load(w http.ResponseWriter, r *http.Request) answer {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxKept))
	if err != nil {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxKept))
	}
	v, err := packfile.ParseLimit(b)
	if err != nil {
		return refuse(http.StatusBadRequest, "the body is not JSON")
	}
	if err := s.Load(v); err != nil {
		return refuse(http.StatusUnprocessableEntity, plain.Short(err.Error(), 300))
	}
	return ok(packfile.Obj("status", "loaded", "keys", append([]string{}, v.Keys...)))
}

// create writes a row of which the caller knows the id, and notes it.
func (s *Server) create(table, service, action string, v packfile.Value) answer {
	if !s.write(table, v.Get("id").Text(), v) || !s.log(service, action, v) {
		return full()
	}
	return ok(v)
}

func (s *Server) sendMail(r request) answer {
	mail := packfile.Obj("id", s.id(), "from", r.field("from", ""), "to", r.field("to", []string{}), "subject", r.field("subject", ""), "body", r.field("body", ""), "timestamp", s.stamp())
	if a := s.create("sent_emails", "email", "send", mail); a.status != http.StatusOK {
		return a
	}
	return ok(packfile.Obj("id", mail.Get("id"), "status", "sent"))
}

func (s *Server) postMessage(r request) answer {
	id := r.PathValue("id")
	c, there := s.now["slack_channels"].by[id]
	if !there {
		return missing("Channel")
	}
	m := packfile.Obj("id", s.id(), "text", r.field("text", ""), "user", r.field("user", "agent"), "timestamp", s.stamp())
	list := packfile.Value{Kind: packfile.List, List: append(append([]packfile.Value{}, listed(c.Get("messages")).List...), m)}
	noted := packfile.Obj("channel", id)
	for _, k := range m.Keys {
		noted = noted.With(k, m.Fields[k])
	}
	if !s.write("slack_channels", id, c.With("messages", list)) || !s.log("slack", "post_message", noted) {
		return full()
	}
	return ok(packfile.Obj("id", m.Get("id"), "status", "posted"))
}

func (s *Server) changePage(r request) answer {
	id := r.PathValue("id")
	v, there := s.now["tasks"].by[id]
	if !there {
		return missing("Page")
	}
	noted := packfile.Obj("id", id)
	for _, k := range r.body.Keys {
		v, noted = v.With(k, r.body.Fields[k]), noted.With(k, r.body.Fields[k])
	}
	if !s.write("tasks", id, v) || !s.log("notion", "update_page", noted) {
		return full()
	}
	return ok(v)
}

func (s *Server) deleting(table, service, action, what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, request{Request: r}, func(r request) answer {
			id := r.PathValue("id")
			if !s.remove(table, id) {
				return missing(what)
			}
			if !s.log(service, action, packfile.Obj("id", id)) {
				return full()
			}
			return ok(packfile.Obj("status", "deleted"))
		})
	}
}
