package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/internal/served"
)

const (
	// maxBody bounds a request's body.
	maxBody = 4 << 20
	// writeTime bounds one write to a client that does not read.
	writeTime = time.Minute
)

// openAI is the dialect that most clients speak.
func openAI() Dialect {
	return Dialect{
		Name: DialectOpenAI,
		Routes: map[string]Route{
			"POST /v1/chat/completions": {Path: "/v1/chat/completions", Parse: ParseChat},
			"POST /v1/embeddings":       {Path: "/v1/embeddings", Parse: ParseEmbedding},
		},
		Serve: func(x *Exchange) bool {
			if x.R.Method != http.MethodGet || x.R.URL.Path != "/v1/models" {
				return false
			}
			x.s.models(x.W)
			return true
		},
	}
}

// agent reports whether the refusal is one of the statuses that are the agent's own errors.
func (r *Refusal) agent() bool { return provider.Own(r.Status) }

// object is OpenAI's error object.
func (r *Refusal) object() any {
	type body struct {
		Message   string       `json:"message"`
		Type      string       `json:"type"`
		Code      string       `json:"code"`
		Param     *string      `json:"param"`
		Remaining *agon.Micros `json:"remaining_micros,omitempty"`
	}
	b := body{Message: r.Message, Code: r.Code, Remaining: r.Remaining}
	switch {
	case r.Remaining != nil:
		b.Type = r.Code
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		b.Type = "permission_error"
	case r.Status >= 500:
		b.Type = "upstream_error"
	default:
		b.Type = "invalid_request_error"
	}
	if r.Param != "" {
		b.Param = &r.Param
	}
	return map[string]body{"error": b}
}

// write answers with OpenAI's error object.
func (r *Refusal) write(w http.ResponseWriter) {
	r.hints(w.Header())
	writeJSON(w, r.Status, r.object())
}

// hints tells clients when to come back.
func (r *Refusal) hints(h http.Header) {
	if r.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(r.Retry/time.Second)))
	}
	if r.Code == CodeBudget {
		h.Set("X-Should-Retry", "false") // the SDKs of OpenAI and Anthropic take 429 for a rate limit
	}
}

// count answers how many tokens a request has, by our tokenizer. It asks no model
// and costs nothing but its place among the session's parallel calls.
func (s *session) count(w http.ResponseWriter, r *http.Request, rt Route, show func(n int64) any) {
	refuse := func(ref *Refusal) {
		status, _ := rt.shown(ref)
		s.refused(r.URL.Path, ref, status)
		rt.refuse(w, ref)
	}
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
	q, err := rt.Parse(raw, s.policy.Fields)
	if err != nil {
		refuse(badRequest(err))
		return
	}
	if _, ok := s.pick(q, rt.Prefer); !ok {
		refuse(noModel(q.model))
		return
	}
	writeJSON(w, http.StatusOK, show(countTokens(string(q.fields))))
}

// post serves a metered call of a model; read returns the request's body.
func (s *session) post(w http.ResponseWriter, r *http.Request, rt Route, read func() ([]byte, *Refusal)) {
	refuse := func(ref *Refusal) {
		status, _ := rt.shown(ref)
		s.refused(rt.Path, ref, status)
		rt.refuse(w, ref)
	}
	// The slot comes before the body: what waits costs a connection, not megabytes.
	if ref := s.slot(r.Context()); ref != nil {
		refuse(ref)
		return
	}
	defer func() { <-s.slots }()
	raw, ref := read()
	if ref != nil {
		refuse(ref)
		return
	}
	q, err := rt.Parse(raw, s.policy.Fields)
	if err != nil {
		refuse(badRequest(err))
		return
	}
	if rt.Reply != nil && rt.stream == nil {
		q.stream = false // its reply is written whole
	}
	c, ref := s.begin(r.Context(), rt, q)
	if ref != nil {
		refuse(ref)
		return
	}
	c.run(w, r)
}

func badRequest(err error) *Refusal {
	ref := &Refusal{Status: http.StatusBadRequest, Code: "invalid_request", Message: err.Error()}
	var fe *fieldError
	if errors.As(err, &fe) {
		ref.Param = fe.field
	}
	return ref
}

func tooLarge() *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: fmt.Sprintf("body is larger than %d bytes", maxBody)}
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
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Refusal) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, &Refusal{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Message: "Content-Type: want application/json"}
	}
	if ce := r.Header.Get("Content-Encoding"); ce != "" && ce != "identity" {
		return nil, &Refusal{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Message: "Content-Encoding: want none"}
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	done := served.Within(w, served.BodyTime)
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	done()
	if err != nil {
		var mb *http.MaxBytesError
		if errors.As(err, &mb) {
			return nil, tooLarge()
		}
		return nil, &Refusal{Status: http.StatusBadRequest, Code: "invalid_request", Message: "body broke off"}
	}
	if err := checkJSON(buf.Bytes()); err != nil {
		return nil, badRequest(err)
	}
	return buf.Bytes(), nil
}

// noModel refuses a model that the session may not call or that has no price.
func noModel(name string) *Refusal {
	ref := &Refusal{Status: http.StatusNotFound, Code: CodeModel, Param: "model", Model: name, Message: "no model is offered here"}
	if name != "" {
		ref.Message = fmt.Sprintf("model: %q is not offered here", name)
	}
	return ref
}

func noBudget(e *ErrBudget) *Refusal {
	return &Refusal{
		Status: http.StatusTooManyRequests, Code: CodeBudget, Lacks: e.What, Remaining: &e.Left.Micros,
		Message: fmt.Sprintf("the run's budget of %s does not carry this call: %s and %d calls are left", e.What, usd(e.Left.Micros), e.Left.Calls),
	}
}

// failed is what a client hears of a provider's failure: neutral words, no byte of the provider's.
func failed(f *provider.Failure) *Refusal {
	status := http.StatusBadGateway
	switch f.Class {
	case provider.ClassRateLimit:
		status = http.StatusServiceUnavailable
	case provider.ClassTimeout:
		status = http.StatusGatewayTimeout
	}
	return &Refusal{
		Status: status, Code: CodeUpstream, Retry: f.RetryAfter,
		Message: "the model's provider did not answer this call; it may work later",
	}
}
