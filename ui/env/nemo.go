package env

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
)

// maxReplay bounds the calls that /verify plays again.
const maxReplay = 1024

// sessionCookie is how NeMo Gym's clients carry a session from request to request.
const sessionCookie = "session"

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// nemo are the routes of a NeMo Gym resource server: a session in a cookie, a route
// a tool, and /verify, which says the reward of what a policy did.
func (s *Server) nemo(m *routes) {
	m.HandleFunc("POST /seed_session", func(w http.ResponseWriter, r *http.Request) {
		var p struct {
			pick
			Meta pick `json:"verifier_metadata"`
		}
		err := read(w, r, &p)
		want := p.pick
		if want.Task == "" && want.Index == nil {
			want = p.Meta
		}
		key := ""
		if err == nil {
			key, err = s.key(want)
		}
		var x *environment.Session
		if err == nil {
			x, err = s.Sessions.Open(r.Context(), "", key, want.Seed)
		}
		if err != nil {
			s.refuse(w, err)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: x.ID, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		write(w, 200, map[string]string{"session_id": x.ID, "task": key, "prompt": x.Task.Prompt})
	})
	for _, t := range s.Sessions.Env.Tools() {
		m.HandleFunc("POST /"+t.Name, func(w http.ResponseWriter, r *http.Request) {
			var args json.RawMessage
			err := read(w, r, &args)
			var x *environment.Session
			if err == nil {
				x, err = s.cookie(r)
			}
			var reply environment.Reply
			if err == nil {
				reply, err = x.Call(r.Context(), "", t.Name, args)
			}
			if errors.Is(err, environment.ErrOver) {
				err = &agon.Error{Code: "episode_finished", Status: 409, Message: "the episode is over"}
			}
			if err != nil {
				s.refuse(w, err)
				return
			}
			write(w, 200, map[string]any{"output": reply.Text, "done": reply.Done, "reward": reward(&reply)})
		})
	}
	m.HandleFunc("POST /verify", s.verify)
}

func (s *Server) cookie(r *http.Request) (*environment.Session, error) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil, &agon.Error{Code: "session_not_found", Status: 404, Field: "session", Message: "the request has no session cookie", Mend: "begin with /seed_session and keep its cookie"}
	}
	return s.Sessions.Get(c.Value)
}

// verify says the reward: of the session's own episode where its calls were made
// here, else of an episode in which the response's calls are made again. A body that
// names a task is of no other's session, and one without session has to name one.
func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	var raw map[string]json.RawMessage
	if err := read(w, r, &raw); err != nil {
		s.refuse(w, err)
		return
	}
	var p struct {
		pick
		Meta     pick `json:"verifier_metadata"`
		Response struct {
			Output []struct {
				Type string `json:"type"`
				Name string `json:"name"`
				Args string `json:"arguments"`
			} `json:"output"`
		} `json:"response"`
	}
	b, err := json.Marshal(raw)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		s.refuse(w, &agon.Error{Code: "bad_body", Status: 422, Field: "response", Message: "the body is not the JSON that is wanted: " + err.Error()})
		return
	}
	want := p.pick
	if want.Task == "" && want.Index == nil {
		want = p.Meta
	}
	x, err := s.cookie(r)
	named := want.Task != "" || want.Index != nil
	key, seed := "", want.Seed
	switch {
	case named:
		if key, err = s.key(want); err != nil {
			s.refuse(w, err)
			return
		}
	case err != nil: // the session is closed; how it ended is known for a while
		c, none := r.Cookie(sessionCookie)
		if none != nil {
			s.refuse(w, err)
			return
		}
		e, ok := s.Sessions.Ended(c.Value)
		if !ok {
			s.refuse(w, err)
			return
		}
		verified(w, raw, &e.Last)
		return
	default:
		key, seed = x.Task.Key, x.Seed
	}
	var last *environment.Reply
	switch {
	case x != nil && x.Task.Key == key && x.Last() != nil:
		last = x.Last()
		_ = x.Close()
	default:
		if x != nil && x.Task.Key == key {
			_ = x.Close()
		}
		if x, err = s.Sessions.Open(r.Context(), "", key, seed); err != nil {
			s.refuse(w, err)
			return
		}
		defer func() { _ = x.Close() }()
		for i, o := range p.Response.Output {
			if i >= maxReplay {
				s.refuse(w, &agon.Error{Code: "too_many", Status: 422, Field: "response.output", Limit: fmt.Sprintf("%d items", maxReplay), Message: fmt.Sprintf("more than %d items", maxReplay)})
				return
			}
			if o.Type != "function_call" || !s.hasTool(o.Name) || x.Last() != nil {
				continue
			}
			if _, err := x.Call(r.Context(), "", o.Name, json.RawMessage(o.Args)); err != nil {
				s.refuse(w, err)
				return
			}
		}
		last = x.Last()
	}
	verified(w, raw, last)
}

// verified answers a body with the reward of the reply that ended the episode, and its parts.
func verified(w http.ResponseWriter, raw map[string]json.RawMessage, last *environment.Reply) {
	value := 0.0 // an episode without an answer
	if last != nil {
		value = last.Reward
		for k, v := range last.Fields {
			if _, taken := raw[k]; !taken {
				raw[k], _ = json.Marshal(v)
			}
		}
	}
	raw["reward"], _ = json.Marshal(value)
	write(w, 200, raw)
}
