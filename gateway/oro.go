package gateway

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

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/plain"
)

// Places of ORO's proxy (spec/oro.md 3.1).
const (
	oroSearch    = "/search/"
	oroInference = "/inference/"
	oroChat      = "/inference/chat/completions"
	oroBody      = 10 << 20 // bytes of a request
)

// oroTools are the tools that agents reach below /search/. Raw products hold
// what scoring reads: no agent gets them.
var oroTools = []string{"find_product", "view_product_information"}

// oroRoutes serves ORO's dialect; false if the request is none of it. Bodies
// of refusals are those of the dialect, byte for byte where its proxy writes them itself.
func (s *session) oroRoutes(w http.ResponseWriter, r *http.Request) bool {
	if !slices.Contains(s.policy.Dialects, DialectORO) {
		return false
	}
	path := r.URL.Path
	name, search := strings.CutPrefix(path, oroSearch)
	switch {
	case r.Method == http.MethodGet && path == "/health":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "healthy\n")
	case search && slices.Contains(oroTools, name) && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		s.oroSearch(w, r, name)
	case path == oroChat && r.Method == http.MethodPost:
		s.oroInference(w, r)
	case r.Method+" "+path == "GET /v1/models", r.Method+" "+path == "POST /v1/chat/completions":
		return false
	default:
		s.oroRefuse(w, path, http.StatusForbidden, "forbidden", `{"error": "forbidden"}`+"\n")
	}
	return true
}

// oroRefuse records a refusal and writes its body.
func (s *session) oroRefuse(w http.ResponseWriter, route string, status int, code, body string) {
	s.refused(route, &refusal{status: status, code: code, msg: strings.TrimSpace(body)}, status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func oroError(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts always encode
	}
	return string(b)
}

// oroSearch turns a GET into a metered call of a tool. Its arguments are the
// request's parameters as texts, sorted; where the request has a body, the
// body is the arguments, as the model wrote them, and parameters do not count:
// what a nonce vouches for is what is carried out.
func (s *session) oroSearch(w http.ResponseWriter, r *http.Request, name string) {
	route := oroSearch + name
	refuse := func(ref *refusal) {
		s.refused(route, ref, ref.status)
		ref.write(w, false)
	}
	if ref := s.slot(r.Context()); ref != nil {
		refuse(ref)
		return
	}
	defer func() { <-s.slots }()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a socket's deadline is real time
	args, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxToolArgs+1))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err != nil || len(args) > maxToolArgs || len(r.URL.RawQuery) > maxToolArgs {
		refuse(&refusal{status: http.StatusRequestEntityTooLarge, code: "too_large", msg: fmt.Sprintf("arguments are larger than %d bytes", maxToolArgs)})
		return
	}
	if len(bytes.TrimSpace(args)) == 0 {
		if args, err = queryArgs(r.URL.RawQuery); err != nil {
			refuse(badRequest(err))
			return
		}
	} else if err := checkJSON(args); err != nil {
		refuse(badRequest(err))
		return
	}
	s.runTool(w, r, name, args, route, refuse)
}

// queryArgs writes the parameters of a URL as a JSON object; of several values
// of one name the first counts, as in the original service.
func queryArgs(raw string) ([]byte, error) {
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

// oroInference checks a model call in the order of ORO's proxy and hands it on.
func (s *session) oroInference(w http.ResponseWriter, r *http.Request) {
	bad := func(status int, code string, v any) { s.oroRefuse(w, oroChat, status, code, oroError(v)) }
	type text struct {
		Error string `json:"error"`
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // a socket's deadline is real time
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, oroBody))
	_ = rc.SetReadDeadline(time.Time{})
	if err != nil || len(body) == 0 {
		bad(http.StatusBadRequest, "invalid_request", text{"Missing or unreadable request body"})
		return
	}
	var q struct {
		Model  json.RawMessage `json:"model"`
		Stream json.RawMessage `json:"stream"`
	}
	if json.Unmarshal(body, &q) != nil {
		bad(http.StatusBadRequest, "invalid_request", text{"Invalid JSON in request body"})
		return
	}
	var model string
	if json.Unmarshal(q.Model, &model) != nil || model == "" {
		bad(http.StatusBadRequest, "invalid_request", text{"Missing 'model' field in request body"})
		return
	}
	if string(q.Stream) == "true" {
		bad(http.StatusBadRequest, "invalid_request", text{"Streaming is not supported through the proxy"})
		return
	}
	if _, ok := s.pick(&request{path: provider.PathChat, model: model}, ""); !ok {
		allowed := []string{}
		for _, o := range s.offers {
			if o.does(provider.PathChat) {
				allowed = append(allowed, o.model)
			}
		}
		bad(http.StatusForbidden, "model_not_found", struct {
			Error  string   `json:"error"`
			Models []string `json:"allowed_models"`
		}{fmt.Sprintf("Model '%s' is not allowed", plain.Head(model, 200)), allowed})
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Type", "application/json") // its proxy does not ask for one
	r.Header.Del("Content-Encoding")
	rt := routes["POST /v1/chat/completions"]
	rt.path = oroChat
	s.post(w, r, rt)
}

// Prefixes of the ids that the gateway gives to calls that came without one.
const (
	idNative = "native_0_"
	idText   = "xml_0_"
)

// gatewayID reports whether an id is one that the gateway gave: every reply starts counting anew.
func gatewayID(id string) bool {
	return strings.HasPrefix(id, idNative) || strings.HasPrefix(id, idText)
}

// asked returns the calls that a model's message asks for. Where replies are
// marked, calls without an id and calls written as text get ids.
func (s *session) asked(m *Message) []ToolCall {
	if s.policy.NonceField == "" {
		return m.ToolCalls
	}
	calls := slices.Clone(m.ToolCalls)
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("%s%d", idNative, i)
		}
	}
	if len(calls) == 0 {
		calls = TextCalls(m.Content)
	}
	return calls
}

// TextCalls returns the calls that a model wrote into its text, between
// <tool_call> and </tool_call>: an object or a list of them, with name and
// parameters (or arguments). Blocks that are no JSON are skipped. The ids are
// those of the order, the arguments the bytes that the model wrote.
func TextCalls(text string) []ToolCall {
	const open, shut = "<tool_call>", "</tool_call>"
	var out []ToolCall
	for len(out) < maxToolCalls {
		_, rest, ok := strings.Cut(text, open)
		if !ok {
			break
		}
		block, after, _ := strings.Cut(rest, shut)
		text = after
		type call struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Arguments  json.RawMessage `json:"arguments"`
		}
		var list []call
		if json.Unmarshal([]byte(block), &list) != nil {
			var one call
			if json.Unmarshal([]byte(block), &one) != nil {
				continue
			}
			list = []call{one}
		}
		for _, c := range list {
			args := c.Parameters
			if args == nil {
				args = c.Arguments
			}
			if c.Name == "" || len(out) == maxToolCalls {
				continue
			}
			out = append(out, ToolCall{ID: fmt.Sprintf("%s%d", idText, len(out)), Name: c.Name, Arguments: string(args)})
		}
	}
	return out
}
