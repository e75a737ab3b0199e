// Package door is how agents of the shopping arena reach tools and models: the
// proxy of ORO, byte for byte where its clients compare.
package door

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/internal/plain"
)

// ORO is the name of the dialect: GET and POST /search/find_product and
// /search/view_product_information, POST /inference/chat/completions and
// GET /health. Nothing else is open but for OpenAI's models and chat, where the
// session has that dialect after this one.
const ORO = "oro"

// Places of the proxy (spec/oro.md 3.1).
const (
	searchPath    = "/search/"
	inferencePath = "/inference/"
	chatPath      = inferencePath + "chat/completions"
	maxBody       = 10 << 20 // bytes of a request for a model
)

// Bodies of the proxy itself, each with its end of line.
const (
	forbidden = `{"error": "forbidden"}` + "\n"
	tooMany   = `{"error": "too many requests"}` + "\n"
)

// searches are the tools that agents reach below /search/. Raw products hold
// what scoring reads: no agent gets them.
var searches = []string{"find_product", "view_product_information"}

// Dialects are those that the shopping arena brings to a gateway.
func Dialects() []gateway.Dialect {
	return dialects(time.Now) //nolint:forbidigo // how fast a client asks is real time
}

func dialects(now func() time.Time) []gateway.Dialect {
	l := NewLimiter(now)
	return []gateway.Dialect{{Name: ORO, Serve: func(x *gateway.Exchange) bool {
		if path := x.R.URL.Path; (strings.HasPrefix(path, searchPath) || strings.HasPrefix(path, inferencePath)) && !l.Allow(x.Session()) {
			x.Refuse(path, http.StatusServiceUnavailable, "rate_limited", tooMany)
			return true
		}
		return serve(x)
	}}}
}

func serve(x *gateway.Exchange) bool {
	method, path := x.R.Method, x.R.URL.Path
	name, search := strings.CutPrefix(path, searchPath)
	switch {
	case method == http.MethodGet && path == "/health":
		x.W.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(x.W, "healthy\n")
	case search && slices.Contains(searches, name) && (method == http.MethodGet || method == http.MethodPost):
		x.Tool(searchPath+name, name, func() ([]byte, error) { return arguments(x) })
	case path == chatPath && method == http.MethodPost:
		inference(x)
	case method+" "+path == "GET /v1/models", method+" "+path == "POST /v1/chat/completions":
		return false
	default:
		x.Refuse(path, http.StatusForbidden, "forbidden", forbidden)
	}
	return true
}

// arguments are a search's. A request without a body has them as parameters:
// texts, sorted. Where it has a body, that is the arguments, as the model wrote
// them, and parameters do not count: what a nonce vouches for is what is carried out.
func arguments(x *gateway.Exchange) ([]byte, error) {
	args, err := x.Body(gateway.MaxToolArgs + 1)
	if err != nil || len(args) > gateway.MaxToolArgs || len(x.R.URL.RawQuery) > gateway.MaxToolArgs {
		return nil, &gateway.Refusal{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: fmt.Sprintf("arguments are larger than %d bytes", gateway.MaxToolArgs)}
	}
	if len(bytes.TrimSpace(args)) > 0 {
		return args, nil
	}
	return parameters(x.R.URL.RawQuery)
}

// parameters writes the parameters of a URL as a JSON object; of several values
// of one name the first counts, as in the original service.
func parameters(raw string) ([]byte, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	args := make(map[string]string, len(q))
	for k, v := range q {
		args[k] = v[0]
	}
	return json.Marshal(args)
}

// inference checks a model call in the order of ORO's proxy and hands it on.
func inference(x *gateway.Exchange) {
	body, err := x.Body(maxBody)
	if err != nil {
		body = nil
	}
	models := func() []string { return append([]string{}, x.Models(provider.PathChat)...) }
	if no := checkModel(body, models); no != nil {
		x.Refuse(chatPath, no.status, no.code, no.body)
		return
	}
	// Its proxy does not ask for a Content-Type: the body is handed on as read.
	x.Call(gateway.Route{Path: chatPath, Parse: gateway.ParseChat}, body)
}

// refusal is how ORO's proxy answers a request that it does not pass on.
type refusal struct {
	status     int
	code, body string
}

// checkModel goes through a request for a model in the order of ORO's proxy; nil: it may
// pass. models are those that are allowed; nil: nobody knows which.
func checkModel(body []byte, models func() []string) *refusal {
	type text struct {
		Error string `json:"error"`
	}
	no := func(status int, code string, v any) *refusal {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // the source writes what it was given
		if err := e.Encode(v); err != nil {
			panic(err) // texts always encode
		}
		return &refusal{status, code, strings.TrimSuffix(b.String(), "\n")}
	}
	if len(body) == 0 {
		return no(http.StatusBadRequest, "invalid_request", text{"Missing or unreadable request body"})
	}
	var q struct {
		Model  json.RawMessage `json:"model"`
		Stream json.RawMessage `json:"stream"`
	}
	if json.Unmarshal(body, &q) != nil {
		return no(http.StatusBadRequest, "invalid_request", text{"Invalid JSON in request body"})
	}
	var model string
	if json.Unmarshal(q.Model, &model) != nil || model == "" {
		return no(http.StatusBadRequest, "invalid_request", text{"Missing 'model' field in request body"})
	}
	if string(q.Stream) == "true" {
		return no(http.StatusBadRequest, "invalid_request", text{"Streaming is not supported through the proxy"})
	}
	allowed := models()
	if allowed == nil {
		return no(http.StatusServiceUnavailable, "no_models", text{"Inference allowlist unavailable"})
	}
	if !slices.Contains(allowed, model) {
		return no(http.StatusForbidden, "model_not_found", struct {
			Error  string   `json:"error"`
			Models []string `json:"allowed_models"`
		}{fmt.Sprintf("Model '%s' is not allowed", plain.Head(model, 200)), allowed})
	}
	return nil
}
