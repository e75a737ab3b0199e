package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/internal/served"
)

// Config is what a host is made of. Zero values mean the defaults.
type Config struct {
	// LLM, Search, Pages, Items and Repo are the back ends of sessions that bring
	// none. A Search that has pages serves them too.
	LLM    LLM
	Search Search
	Pages  Pages
	Items  Items
	Repo   Repo
	// Books keep the money and the receipts of all sessions; default: in memory,
	// with a key of their own. A gateway's (Gateway.Books) make them durable.
	Books *gateway.Books
	// Headers are the pairs of headers in which a caller may name its session, the
	// preferred one first; default: X-Platform-Token and X-Session-Id.
	Headers []Headers
	// PriceVersion names the price table in signed receipts; default "tools-1".
	PriceVersion string
	Now          func() time.Time // time.Now
	Log          *slog.Logger     // discards; it gets classes of errors, never arguments
	// CallTimeout bounds one call (default 60 s; llm_chat and repositories 120 s).
	CallTimeout time.Duration
}

// Host serves sessions. It is an http.Handler and safe for concurrent use.
type Host struct {
	cfg Config

	mu       sync.RWMutex
	sessions map[string]*Session // guarded by mu
	stopped  bool                // guarded by mu
}

// New returns a host that has no session yet.
func New(c Config) *Host {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if p, ok := c.Search.(Pages); ok && c.Pages == nil {
		c.Pages = p
	}
	if len(c.Headers) == 0 {
		c.Headers = []Headers{DefaultHeaders}
	}
	if c.PriceVersion == "" {
		c.PriceVersion = defaultPrices
	}
	if c.Books == nil {
		var err error
		if c.Books, err = gateway.NewBooks(context.Background(), gateway.BooksConfig{Clock: c.Now}); err != nil {
			panic("tools: " + err.Error()) // in memory, with a new key: there is nothing that could fail
		}
	}
	return &Host{cfg: c, sessions: map[string]*Session{}}
}

// Stop closes every session; later ones are refused. Idempotent.
func (h *Host) Stop() {
	h.mu.Lock()
	h.stopped = true
	open := make([]*Session, 0, len(h.sessions))
	for _, s := range h.sessions {
		open = append(open, s)
	}
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range open {
		wg.Go(func() { s.Close(StatusError) })
	}
	wg.Wait()
}

// Path is the only route of a host besides GET /healthz.
const Path = "/v1/tools/execute"

const (
	// maxBody bounds a request's body, maxReply an answer.
	maxBody  = 2 << 20
	maxReply = 8 << 20
)

// Headers are the names of the two headers that say whose call it is.
type Headers struct{ Token, Session string }

// DefaultHeaders are what a host reads if its Config names no others.
var DefaultHeaders = Headers{Token: "X-Platform-Token", Session: "X-Session-Id"}

// Set names a session in the headers of a call.
func (n Headers) Set(h http.Header, s *Session) {
	h.Set(n.Token, s.Token())
	h.Set(n.Session, s.ID())
}

// headers is the first pair whose token a request has, else the preferred one.
func (h *Host) headers(r *http.Request) Headers {
	for _, n := range h.cfg.Headers {
		if r.Header.Get(n.Token) != "" {
			return n
		}
	}
	return h.cfg.Headers[0]
}

// invocation is a request's body.
type invocation struct {
	Tool   string                     `json:"tool"`
	Args   []json.RawMessage          `json:"args"`
	Kwargs map[string]json.RawMessage `json:"kwargs"`
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
		return
	case r.URL.Path != Path:
		detail(w, http.StatusNotFound, "Not Found")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		detail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	body, err := served.Body(w, r, maxBody)
	if err != nil {
		if errors.Is(err, served.ErrLarge) {
			detail(w, http.StatusRequestEntityTooLarge, "body is larger than 2 MiB")
			return
		}
		detail(w, http.StatusBadRequest, "There was an error parsing the body")
		return
	}
	names := h.headers(r)
	token, sid := r.Header.Get(names.Token), r.Header.Get(names.Session)
	inv, old, bad := parseBody(body, h.find(sid).toolNames())
	if old != nil && token == "" { // the form of January: token and session in the body
		token, sid = old.token, old.session
	} else if old != nil && sid == "" {
		sid = old.session
	}
	if token == "" {
		detail(w, http.StatusUnauthorized, "missing "+strings.ToLower(names.Token)+" header")
		return
	}
	id, err := uuid.Parse(sid)
	if err != nil || len(sid) > 64 {
		fail := fieldFail{"uuid_parsing", []any{"header", strings.ToLower(names.Session)}, "Input should be a valid UUID", plain.Head(sid, 80)}
		if sid == "" {
			fail = fieldFail{"missing", fail.Loc, "Field required", nil}
		}
		bad = append([]fieldFail{fail}, bad...)
	}
	if len(bad) > 0 {
		answer(w, http.StatusUnprocessableEntity, map[string]any{"detail": bad})
		return
	}
	status, out := h.execute(r.Context(), id.String(), token, inv)
	answer(w, status, out)
}

// fieldFail is one entry of the list that FastAPI answers 422 with.
type fieldFail struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
}

type bodyAuth struct{ token, session string }

// parseBody reads a body in either form of the seed. It never fails half way:
// what is wrong is told in bad.
func parseBody(b []byte, names []string) (inv invocation, old *bodyAuth, bad []fieldFail) {
	one := func(typ, field, msg string) []fieldFail {
		loc := []any{"body"}
		if field != "" {
			loc = append(loc, field)
		}
		return []fieldFail{{typ, loc, msg, nil}}
	}
	if !utf8.Valid(b) || checkDepth(b) != nil {
		return inv, nil, one("json_invalid", "", "JSON decode error")
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil || top == nil {
		if json.Valid(b) {
			return inv, nil, one("model_attributes_type", "", "Input should be a valid dictionary or object to extract fields from")
		}
		return inv, nil, one("json_invalid", "", "JSON decode error")
	}
	str := func(k string) (string, bool) {
		var s string
		v, ok := top[k]
		if !ok || json.Unmarshal(v, &s) != nil || bytes.Equal(bytes.TrimSpace(v), []byte("null")) {
			return "", false
		}
		return s, true
	}
	if t, ok := str("token"); ok {
		old = &bodyAuth{token: t}
		old.session, _ = str("session_id")
	}
	for k, v := range top {
		switch k {
		case "tool":
		case "args":
			if json.Unmarshal(v, &inv.Args) != nil || inv.Args == nil {
				bad = append(bad, one("list_type", k, "Input should be a valid list")...)
			}
		case "kwargs":
			if json.Unmarshal(v, &inv.Kwargs) != nil || inv.Kwargs == nil {
				bad = append(bad, one("dict_type", k, "Input should be a valid dictionary")...)
			}
		default:
			if old == nil {
				bad = append(bad, one("extra_forbidden", plain.Head(k, 80), "Extra inputs are not permitted")...)
			}
		}
	}
	name, ok := str("tool")
	switch {
	case !ok && top["tool"] == nil:
		bad = append(bad, one("missing", "tool", "Field required")...)
	case !ok:
		bad = append(bad, one("string_type", "tool", "Input should be a valid string")...)
	case !slices.Contains(names, name):
		bad = append(bad, one("literal_error", "tool", "Input should be '"+strings.Join(names, "', '")+"'")...)
	}
	if len(inv.Kwargs) > maxArgs || len(inv.Args) > maxArgs {
		bad = append(bad, one("too_long", "kwargs", "More than 64 arguments")...)
	}
	inv.Tool = name
	return inv, old, bad
}

// maxDepth bounds the nesting of a body: decoders recurse.
const maxDepth = 64

func checkDepth(b []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return errors.New("nested too deep")
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// find is an open session, or nil.
func (h *Host) find(session string) *Session {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.sessions[session]
}

// execute runs one call to its end and returns what the script gets.
func (h *Host) execute(ctx context.Context, session, token string, inv invocation) (int, any) {
	s := h.find(session)
	if s == nil {
		return http.StatusBadRequest, map[string]string{"detail": TextSession}
	}
	leave, text := s.enter(ctx, token)
	if text != "" {
		return http.StatusBadRequest, map[string]string{"detail": text}
	}
	defer leave()
	out, text, _ := s.call(inv)
	if text != "" {
		return http.StatusBadRequest, map[string]string{"detail": text}
	}
	return http.StatusOK, out
}

// Execute makes one call in the session, as a script would. It is for our own
// use of the tools (task supply); text is one of the fixed sentences, or empty.
func (s *Session) Execute(ctx context.Context, tool string, kwargs map[string]any) (out json.RawMessage, text string) {
	kw := map[string]json.RawMessage{}
	for k, v := range kwargs {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, TextInvalid
		}
		kw[k] = b
	}
	if !slices.Contains(s.toolNames(), tool) {
		return nil, TextInvalid
	}
	leave, text := s.enter(ctx, s.token)
	if text != "" {
		return nil, text
	}
	defer leave()
	v, text, _ := s.call(invocation{Tool: tool, Kwargs: kw})
	if text != "" {
		return nil, text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, TextFailed
	}
	return b, ""
}

// Answer is what a call came to for whoever keeps the books of another: the tool's
// response and what it cost, or the class of its failure.
type Answer struct {
	Response json.RawMessage
	Cost     agon.Micros
	Class    string // "": it was answered
}

// Call makes one call in the session for somebody who hands the answer on, a validator's
// tool host that has the session's token from us.
func (s *Session) Call(ctx context.Context, tool string, kwargs map[string]json.RawMessage) Answer {
	if !slices.Contains(s.toolNames(), tool) {
		return Answer{Class: ClassInvalid}
	}
	leave, text := s.enter(ctx, s.token)
	switch text {
	case "":
	case TextConcurrency:
		return Answer{Class: ClassConcurrency}
	default:
		return Answer{Class: ClassEnded}
	}
	defer leave()
	v, _, class := s.call(invocation{Tool: tool, Kwargs: kwargs})
	if class != "" {
		return Answer{Class: class}
	}
	b, err := json.Marshal(v)
	var out struct {
		Response json.RawMessage `json:"response"`
		Cost     *float64        `json:"cost_usd"`
	}
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return Answer{Class: ClassBooks}
	}
	a := Answer{Response: out.Response}
	if out.Cost != nil {
		a.Cost = agon.Micros(math.Round(*out.Cost * 1e6))
	}
	return a
}

// canonical is the form that hashes cover. What it cannot write (lone
// surrogates, numbers out of range) is an invalid argument.
func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return signing.PythonJSON(b)
}

func detail(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"detail": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil || b.Len() > maxReply {
		status = http.StatusBadRequest
		b.Reset()
		b.WriteString(`{"detail":"` + TextFailed + `"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimRight(b.Bytes(), "\n"))
}
