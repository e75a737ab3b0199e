package env

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/internal/plain"
)

// sendTime bounds how long a client may take to accept a message.
const sendTime = 20 * time.Second

// openEnv are OpenEnv's routes: /ws holds one session a connection, /mcp is
// JSON-RPC over sessions by name.
func (s *Server) openEnv(m *routes) {
	m.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { write(w, 200, map[string]string{"status": "healthy"}) })
	m.HandleFunc("GET /metadata", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]string{"name": s.Sessions.Env.Name(), "description": "Tasks of an agon arena, played call by call", "version": agon.Version})
	})
	m.HandleFunc("GET /schema", func(w http.ResponseWriter, _ *http.Request) { write(w, 200, json.RawMessage(schemas)) })
	m.HandleFunc("POST /mcp", s.mcp)
	m.HandleFunc("GET /ws", s.ws)
}

// schemas are the forms of actions, observations and states.
const schemas = `{"action":{"title":"CallToolAction","type":"object","properties":{"type":{"enum":["call_tool","list_tools"]},"tool_name":{"type":"string"},"arguments":{"type":"object"}},"required":["type"]},` +
	`"observation":{"title":"CallToolObservation","type":"object","properties":{"tool_name":{"type":"string"},"result":{},"error":{"type":["object","null"]}}},` +
	`"reset_observation":{"title":"TaskObservation","type":"object","properties":{"task":{"type":"string"},"prompt":{"type":"string"},"tools":{"type":"array"}}},` +
	`"state":{"title":"State","type":"object","properties":{"episode_id":{"type":"string"},"task":{"type":"string"},"step_count":{"type":"integer"},"done":{"type":"boolean"}}}}`

// wsMessage is what a client sends.
type wsMessage struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

type answer struct {
	Type string `json:"type"`
	Data any    `json:"data,omitempty"`
}

func wsError(code, message string) answer {
	return answer{"error", map[string]string{"message": message, "code": code}}
}

// wsConn is one connection with the session that it plays.
type wsConn struct {
	*Server
	session *environment.Session
	named   string // the session that it was opened for; "" has its own
}

func (s *Server) ws(w http.ResponseWriter, r *http.Request) {
	// No page of a browser speaks this: an Origin of another host is refused.
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(maxBody)
	k := &wsConn{Server: s, named: r.URL.Query().Get("session_id")}
	if k.named != "" {
		if k.session, err = s.Sessions.Get(k.named); err != nil {
			_ = k.send(r.Context(), c, wsError("SESSION_ERROR", err.Error()))
			return
		}
	}
	defer func() {
		if k.session != nil && k.named == "" {
			_ = k.session.Close()
		}
	}()
	for {
		_, b, err := c.Read(r.Context())
		if err != nil {
			return
		}
		out, end := k.handle(r.Context(), b)
		if end {
			_ = c.Close(websocket.StatusNormalClosure, "")
			return
		}
		if err := k.send(r.Context(), c, out); err != nil {
			return
		}
	}
}

func (k *wsConn) send(ctx context.Context, c *websocket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return c.Write(ctx, websocket.MessageText, b)
}

// handle answers one message; end says that the client closes.
func (k *wsConn) handle(ctx context.Context, b []byte) (out answer, end bool) {
	var m wsMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return wsError("INVALID_JSON", "Invalid JSON: "+err.Error()), false
	}
	if len(m.Data) == 0 {
		m.Data = json.RawMessage("{}")
	}
	switch m.Type {
	case "reset":
		return k.reset(ctx, m.Data), false
	case "step":
		return k.step(ctx, m.Data), false
	case "state":
		if k.session == nil {
			return answer{"state", map[string]any{"episode_id": nil, "step_count": 0}}, false
		}
		return answer{"state", k.session.Status()}, false
	case "mcp":
		return answer{"mcp", k.rpc(ctx, m.Data, k.session)}, false
	case "close":
		return answer{}, true
	}
	return wsError("UNKNOWN_TYPE", "Unknown message type: "+plain.Head(m.Type, 40)), false
}

// failure puts an error of ours or of a request into OpenEnv's words.
func (s *Server) failure(err error) answer {
	var e *agon.Error
	switch {
	case errors.Is(err, environment.ErrOver):
		return wsError("EXECUTION_ERROR", "the episode is over: reset first")
	case !errors.As(err, &e):
		s.Log.Error("environment", "err", err)
		return wsError("EXECUTION_ERROR", "the environment failed; its log says why")
	case e.Code == "too_many_sessions":
		return wsError("CAPACITY_REACHED", e.Message)
	case e.Code == "session_not_found", e.Code == "session_busy":
		return wsError("SESSION_ERROR", e.Message)
	}
	return wsError("VALIDATION_ERROR", e.Message)
}

func (k *wsConn) reset(ctx context.Context, data json.RawMessage) answer {
	var p struct {
		pick
		Episode string `json:"episode_id"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return wsError("VALIDATION_ERROR", "reset: "+err.Error())
	}
	key, err := k.key(p.pick)
	if err != nil {
		return k.failure(err)
	}
	if _, err := k.Sessions.Task(key); err != nil {
		return k.failure(err) // the old episode stays
	}
	if k.session != nil {
		_ = k.session.Close()
	}
	id := p.Episode
	if k.named != "" {
		id = k.named // who shares the session finds it by this name
	}
	if k.session, err = k.Sessions.Open(ctx, id, key, p.Seed); err != nil {
		k.session = nil
		return k.failure(err)
	}
	return answer{"observation", map[string]any{
		"observation": map[string]any{"task": key, "prompt": k.session.Task.Prompt, "tools": k.toolList()},
		"reward":      nil, "done": false, "metadata": map[string]any{"episode_id": k.session.ID, "task": json.RawMessage(orNull(k.session.Task.Meta))},
	}}
}

func orNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}

func (k *wsConn) step(ctx context.Context, data json.RawMessage) answer {
	var a struct {
		Type string          `json:"type"`
		Tool string          `json:"tool_name"`
		Args json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return wsError("VALIDATION_ERROR", "step: "+err.Error())
	}
	observed := func(o any, r *environment.Reply) answer {
		data := map[string]any{"observation": o, "reward": reward(r), "done": r != nil && r.Done}
		if r != nil && r.Fields != nil {
			data["metadata"] = r.Fields
		}
		return answer{"observation", data}
	}
	switch {
	case a.Type == "list_tools":
		return observed(map[string]any{"tools": k.toolList()}, nil)
	case a.Type != "call_tool":
		return wsError("VALIDATION_ERROR", "step: type is call_tool or list_tools")
	case k.session == nil:
		return wsError("EXECUTION_ERROR", "no episode is open: reset first")
	}
	wrong := func(kind, message string) answer {
		return observed(map[string]any{"tool_name": a.Tool, "result": nil, "error": map[string]string{"error_type": kind, "message": message}}, nil)
	}
	if !k.hasTool(a.Tool) {
		return wrong("tool_not_found", "there is no tool "+plain.Head(a.Tool, 40))
	}
	x, err := k.Sessions.Get(k.session.ID)
	if err != nil {
		return k.failure(err)
	}
	r, err := x.Call(ctx, "", a.Tool, a.Args)
	switch {
	case err != nil:
		return k.failure(err)
	case r.Refused:
		return wrong("invalid_args", r.Text)
	}
	return observed(map[string]any{"tool_name": a.Tool, "result": r.Text, "error": nil}, &r)
}

// rpcAnswer is a JSON-RPC 2.0 answer.
type rpcAnswer struct {
	Version string          `json:"jsonrpc"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcFault       `json:"error,omitempty"`
	ID      json.RawMessage `json:"id"`
}

type rpcFault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	if err := read(w, r, &raw); err != nil {
		var e *agon.Error
		if errors.As(err, &e) && e.Status == 413 {
			s.refuse(w, err)
			return
		}
		write(w, 200, rpcAnswer{Version: "2.0", Error: &rpcFault{-32700, "Parse error"}, ID: json.RawMessage("null")})
		return
	}
	write(w, 200, s.rpc(r.Context(), raw, nil))
}

// rpc answers one JSON-RPC request; own is the session of the connection that it came by.
func (s *Server) rpc(ctx context.Context, raw json.RawMessage, own *environment.Session) rpcAnswer {
	var q struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		ID     json.RawMessage `json:"id"`
	}
	out := rpcAnswer{Version: "2.0", ID: json.RawMessage("null")}
	if err := json.Unmarshal(raw, &q); err != nil || q.Method == "" {
		out.Error = &rpcFault{-32600, "Invalid request"}
		return out
	}
	out.ID = orNull(q.ID)
	var p struct {
		pick
		Session string          `json:"session_id"`
		Name    string          `json:"name"`
		Args    json.RawMessage `json:"arguments"`
	}
	if len(q.Params) > 0 {
		if err := json.Unmarshal(q.Params, &p); err != nil {
			out.Error = &rpcFault{-32602, "Params must be an object: " + err.Error()}
			return out
		}
	}
	var err error
	switch q.Method {
	case "tools/list":
		out.Result = map[string]any{"tools": s.toolList()}
	case "openenv/session/create":
		if own != nil {
			out.Result = map[string]string{"session_id": own.ID}
			break
		}
		var x *environment.Session
		key := ""
		if key, err = s.key(p.pick); err == nil {
			if x, err = s.Sessions.Open(ctx, "", key, p.Seed); err == nil {
				out.Result = map[string]any{"session_id": x.ID, "task": x.Task}
			}
		}
	case "openenv/session/close":
		var x *environment.Session
		if x, err = s.Sessions.Get(p.Session); err == nil {
			_ = x.Close()
			out.Result = map[string]any{"session_id": p.Session, "closed": true}
		}
	case "tools/call":
		out.Result, err = s.rpcCall(ctx, own, p.Session, p.Name, p.Args)
	default:
		out.Error = &rpcFault{-32601, "Method not found: " + plain.Head(q.Method, 40)}
	}
	var e *agon.Error
	switch {
	case err == nil:
	case errors.Is(err, environment.ErrOver):
		out.Error = &rpcFault{-32000, "the episode is over"}
	case errors.As(err, &e):
		out.Error = &rpcFault{map[bool]int{true: -32602, false: -32000}[e.Status == 404 || e.Status == 422 || e.Status == 400], e.Message}
	default:
		s.Log.Error("environment", "err", err)
		out.Error = &rpcFault{-32603, "the environment failed; its log says why"}
	}
	return out
}

func (s *Server) rpcCall(ctx context.Context, x *environment.Session, id, name string, args json.RawMessage) (any, error) {
	if x == nil {
		var err error
		if x, err = s.Sessions.Get(id); err != nil {
			return nil, err
		}
	}
	if !s.hasTool(name) {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "name", Message: "there is no tool " + plain.Head(name, 40)}
	}
	r, err := x.Call(ctx, "", name, args)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"content": []map[string]string{{"type": "text", "text": r.Text}}, "isError": r.Refused, "data": r.Text,
		"_meta": map[string]any{"done": r.Done, "reward": reward(&r)},
	}, nil
}
