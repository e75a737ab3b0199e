package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
)

const (
	// maxBody bounds a request's body.
	maxBody = 4 << 20
	// bodyTime bounds how long a client may take to send it.
	bodyTime = time.Minute
	// writeTime bounds one write to a client that does not read.
	writeTime = time.Minute
)

// route is one entry of the allow-list.
type route struct {
	path    string
	dialect string
	a0      bool // refusals and failures are sentences with status 200
	prefer  string
	parse   func([]byte, fieldRules) (*request, error) // nil: the list of models
}

// routes is everything that a session can reach, by method and path.
var routes = map[string]route{
	"GET /v1/models":            {path: "/v1/models", dialect: DialectOpenAI},
	"POST /v1/chat/completions": {path: "/v1/chat/completions", dialect: DialectOpenAI, parse: parseChat},
	"POST /v1/embeddings":       {path: "/v1/embeddings", dialect: DialectOpenAI, parse: parseEmbedding},
	"POST /agents/inference": {
		path: "/agents/inference", dialect: DialectRidgesA0, a0: true, prefer: a0Model,
		parse: func(b []byte, r fieldRules) (*request, error) { return parseA0(b, provider.PathChat, r) },
	},
	"POST /agents/embedding": {
		path: "/agents/embedding", dialect: DialectRidgesA0, a0: true,
		parse: func(b []byte, r fieldRules) (*request, error) { return parseA0(b, provider.PathEmbeddings, r) },
	},
}

// refusal is an answer of the gateway itself.
type refusal struct {
	status    int
	code, msg string
	param     string        // the field that is wrong
	remaining *agon.Micros  // what is left, where the budget was the reason
	retry     time.Duration // when to come back
	sentence  string        // for the A0 dialect; else the refusal has a status there too
}

// agent reports whether the refusal is one of the statuses that are the agent's own errors.
func (r *refusal) agent() bool { return provider.Own(r.status) }

// shown is the status that the client gets.
func (r *refusal) shown(a0 bool) int {
	if a0 && r.sentence != "" {
		return http.StatusOK
	}
	if a0 && r.status == http.StatusBadRequest {
		return http.StatusUnprocessableEntity // the dialect's word for a body of the wrong shape
	}
	return r.status
}

// write answers in the route's dialect.
func (r *refusal) write(w http.ResponseWriter, a0 bool) {
	if a0 && r.sentence != "" {
		writeJSON(w, http.StatusOK, r.sentence)
		return
	}
	if r.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(r.retry/time.Second)))
	}
	if a0 {
		writeJSON(w, r.shown(true), map[string]string{"detail": r.msg})
		return
	}
	type body struct {
		Message   string       `json:"message"`
		Type      string       `json:"type"`
		Code      string       `json:"code"`
		Param     *string      `json:"param"`
		Remaining *agon.Micros `json:"remaining_micros,omitempty"`
	}
	b := body{Message: r.msg, Code: r.code, Remaining: r.remaining}
	switch {
	case r.remaining != nil:
		b.Type = r.code
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		b.Type = "permission_error"
	case r.status >= 500:
		b.Type = "upstream_error"
	default:
		b.Type = "invalid_request_error"
	}
	if r.param != "" {
		b.Param = &r.param
	}
	writeJSON(w, r.status, map[string]body{"error": b})
}

// post serves a metered call.
func (s *session) post(w http.ResponseWriter, r *http.Request, rt route) {
	refuse := func(ref *refusal) {
		status := ref.shown(rt.a0)
		s.refused(rt.path, ref, status)
		ref.write(w, rt.a0)
	}
	// The slot comes before the body: what waits costs a connection, not megabytes.
	if ref := s.slot(r.Context()); ref != nil {
		refuse(ref)
		return
	}
	defer func() { <-s.slots }()
	raw, ref := readBody(w, r)
	if ref != nil {
		refuse(ref)
		return
	}
	q, err := rt.parse(raw, s.policy.Fields)
	if err != nil {
		refuse(badRequest(err))
		return
	}
	c, ref := s.begin(r.Context(), rt, q)
	if ref != nil {
		refuse(ref)
		return
	}
	c.run(w, r)
}

func badRequest(err error) *refusal {
	ref := &refusal{status: http.StatusBadRequest, code: "invalid_request", msg: err.Error()}
	var fe *fieldError
	if errors.As(err, &fe) {
		ref.param = fe.field
	}
	return ref
}

func tooLarge() *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: "too_large", msg: fmt.Sprintf("body is larger than %d bytes", maxBody)}
}

// isJSON reports whether a Content-Type says JSON in UTF-8.
func isJSON(ctype string) bool {
	if ctype == "application/json" {
		return true
	}
	ct, params, err := mime.ParseMediaType(ctype)
	return err == nil && ct == "application/json" && (params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8"))
}

// readBody reads a JSON body within the limits of size, time and shape.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", msg: "Content-Type: want application/json"}
	}
	if ce := r.Header.Get("Content-Encoding"); ce != "" && ce != "identity" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", msg: "Content-Encoding: want none"}
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // a socket's deadline is real time
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	_ = rc.SetReadDeadline(time.Time{})
	if err != nil {
		var mb *http.MaxBytesError
		if errors.As(err, &mb) {
			return nil, tooLarge()
		}
		return nil, &refusal{status: http.StatusBadRequest, code: "invalid_request", msg: "body broke off"}
	}
	if err := checkJSON(buf.Bytes()); err != nil {
		return nil, badRequest(err)
	}
	return buf.Bytes(), nil
}

// noModel refuses a model that the session may not call or that has no price.
func noModel(name string) *refusal {
	if name == "" {
		return &refusal{
			status: http.StatusNotFound, code: "model_not_found", param: "model", msg: "no model is offered here",
			sentence: "Error: no model is offered here.",
		}
	}
	return &refusal{
		status: http.StatusNotFound, code: "model_not_found", param: "model", msg: fmt.Sprintf("model: %q is not offered here", name),
		sentence: fmt.Sprintf("Error: the model %q is not supported here.", name),
	}
}

func noBudget(e *ErrBudget) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "budget_exceeded", remaining: &e.Left.Micros,
		msg:      fmt.Sprintf("the run's budget of %s does not carry this call: %s and %d calls are left", e.What, usd(e.Left.Micros), e.Left.Calls),
		sentence: fmt.Sprintf("Error: the budget of this run is used up: its %s does not carry this call.", e.What),
	}
}

// failed is what a client hears of a provider's failure: neutral words, no byte of the provider's.
func failed(f *provider.Failure) *refusal {
	status := http.StatusBadGateway
	switch f.Class {
	case provider.ClassRateLimit:
		status = http.StatusServiceUnavailable
	case provider.ClassTimeout:
		status = http.StatusGatewayTimeout
	}
	return &refusal{
		status: status, code: "upstream_failed", retry: f.RetryAfter,
		msg:      "the model's provider did not answer this call; it may work later",
		sentence: "Error: the model's provider did not answer this call.",
	}
}

// a0Reply turns an OpenAI reply into the A0 form: a JSON string, or a list of vectors.
func a0Reply(path string, w *wireReply) ([]byte, bool) {
	if path == provider.PathChat {
		m, ok := w.message()
		if !ok {
			return nil, false
		}
		b, err := json.Marshal(m.Content)
		return b, err == nil
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, d := range w.Data {
		if i > 0 {
			out.WriteByte(',')
		}
		if len(d.Embedding) == 0 {
			return nil, false
		}
		out.Write(d.Embedding)
	}
	out.WriteByte(']')
	return out.Bytes(), len(w.Data) > 0
}
