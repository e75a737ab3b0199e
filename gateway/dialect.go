package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/served"
)

// The gateway's own dialects: every gateway has them.
const (
	// DialectOpenAI is POST /v1/chat/completions, POST /v1/embeddings and GET /v1/models.
	DialectOpenAI = "openai"
	// DialectTools is GET /v1/tools and POST /v1/tools/{name}.
	DialectTools = "tools"
)

// ModelDialects are the gateway's own dialects of models: who speaks one may speak all.
var ModelDialects = []string{DialectOpenAI, DialectResponses, DialectAnthropic, DialectGoogle}

// Dialect is a set of routes that a session may switch on (Policy.Dialects), in
// the words of the agents that call them. It says what a request asks for and
// how replies and refusals read. What a call costs, which limits hold for it and
// what is recorded of it is the gateway's, whatever the dialect. A Dialect is
// not changed once a gateway has it, and its functions may run at once.
type Dialect struct {
	// Name is what policies call it: lower-case letters, digits and dashes.
	Name string
	// Routes are routes to models, by method and path: "POST /agents/inference".
	Routes map[string]Route
	// Serve answers requests that Routes does not name. It returns false, and has
	// written nothing, for a request that is not one of the dialect's: then the
	// session's next dialect is asked. Optional.
	Serve func(x *Exchange) bool
}

// Route is one route to a model. A call is reserved before it is made and
// settled before its client reads the reply.
type Route struct {
	// Path names the route in receipts and events.
	Path string
	// Parse says what a body asks for: ParseChat or ParseEmbedding, or one that
	// translates a body for them. The body is JSON in UTF-8 without double members,
	// of at most 4 MiB. An error refuses the request; one of BadField names the field.
	Parse func(body []byte, rules FieldRules) (*Request, error)
	// Prefer is the model for requests that name none, where the session has it.
	Prefer string
	// Reply writes a reply in the dialect's form; false: the provider's reply has
	// no answer in it, which counts as its failure. nil: the client gets the
	// provider's bytes, as a stream where it asked for one. With Reply there are no
	// streams and no marks (Policy.NonceField).
	Reply func(r Reply) (body []byte, ok bool)
	// Refuse says how a refusal reads, as JSON. nil: OpenAI's error object.
	Refuse func(r Refusal) (status int, body any)
	// stream writes a chat's stream in the dialect's events. nil: no streams with Reply.
	stream func(r Reply) translator
}

// Reply is a provider's answer.
type Reply struct {
	ID                 string            // of the receipt
	Model              string            // as the provider was asked
	Created            time.Time         // when the call was made
	Prompt, Completion int64             // tokens as they are billed
	Message            *Message          // of a chat; nil: none
	Embeddings         []json.RawMessage // of an embedding call, in order
}

// Codes of refusals that are about models. Every other code is about the
// request or the session.
const (
	CodeModel    = "model_not_found" // Refusal.Model is not offered
	CodeBudget   = "budget_exceeded" // Refusal.Lacks does not carry the call
	CodeUpstream = "upstream_failed" // the provider failed
	// CodeRefused is a provider's own 400, 404, 413 or 422. Only a Route with
	// Refuse sees it: other clients get the provider's bytes.
	CodeRefused = "upstream_refused"
)

// Refusal is an answer of the gateway itself.
type Refusal struct {
	Status    int
	Code      string
	Message   string
	Param     string        // the field that is wrong; "": none
	Model     string        // CodeModel: as it was asked for; "": none was named
	Lacks     string        // CodeBudget: "money", "calls", "tokens" or "time"
	Remaining *agon.Micros  // CodeBudget: the money that is left
	Retry     time.Duration // when to come back; 0: nothing is known
}

// shown is what the client of rt gets for a refusal.
func (rt Route) shown(r *Refusal) (status int, body any) {
	if rt.Refuse == nil {
		return r.Status, r.object()
	}
	return rt.Refuse(*r)
}

// refuse answers in the words of rt and returns the status that the client got.
func (rt Route) refuse(w http.ResponseWriter, r *Refusal) int {
	if rt.Refuse == nil {
		r.write(w)
		return r.Status
	}
	status, body := rt.shown(r)
	r.hints(w.Header())
	writeJSON(w, status, body)
	return status
}

// Exchange is one request of a session, and what a Dialect's Serve may do with it.
type Exchange struct {
	W http.ResponseWriter
	R *http.Request
	s *session
}

// Models lists the models that the session may call at an endpoint
// (provider.PathChat, provider.PathEmbeddings).
func (x *Exchange) Models(endpoint string) []string {
	out := []string{}
	for _, o := range x.s.offers {
		if o.does(endpoint) {
			out = append(out, o.model)
		}
	}
	return out
}

// Body reads the request's body, at most limit bytes, within the gateway's time.
func (x *Exchange) Body(limit int64) ([]byte, error) {
	b, err := served.Body(x.W, x.R, limit)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return b, nil
}

// Call answers with a call of a model. body is what Serve has read of the
// request; nil: Call reads it, and wants it to say that it is JSON.
func (x *Exchange) Call(rt Route, body []byte) {
	x.s.post(x.W, x.R, rt, func() ([]byte, *Refusal) {
		switch {
		case body == nil:
			return readBody(x.W, x.R)
		case len(body) > maxBody:
			return nil, tooLarge()
		}
		if err := checkJSON(body); err != nil {
			return nil, badRequest(err)
		}
		return body, nil
	})
}

// MaxToolArgs bounds the arguments of a tool call, in bytes.
const MaxToolArgs = 64 << 10

// Tool answers with a metered call of a tool, with the books, receipts and
// limits of a model's call. args returns its arguments as JSON, at most
// MaxToolArgs; it is called once the call has its place among those that the
// session may make at once. Its error, if it is not a *Refusal, says what is
// wrong with the request.
func (x *Exchange) Tool(route, name string, args func() ([]byte, error)) {
	x.s.callTool(x.W, x.R, route, name, args)
}

// Refuse records a refusal and answers with body, which is JSON.
func (x *Exchange) Refuse(route string, status int, code, body string) {
	x.s.refused(route, &Refusal{Status: status, Code: code, Message: strings.TrimSpace(body)}, status)
	x.W.Header().Set("Content-Type", "application/json")
	x.W.WriteHeader(status)
	_, _ = io.WriteString(x.W, body)
}

// Error makes a refusal an error, for Exchange.Tool.
func (r *Refusal) Error() string { return r.Message }

var dialectName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// dialects are those of the gateway and others, by name.
func dialects(others []Dialect) (map[string]Dialect, error) {
	out := map[string]Dialect{}
	for _, d := range append([]Dialect{openAI(), toolsDialect(), anthropic(), responses(), google()}, others...) {
		if !dialectName().MatchString(d.Name) {
			return nil, fmt.Errorf("check dialect %q: a name has lower-case letters, digits and single dashes", d.Name)
		}
		if _, twice := out[d.Name]; twice {
			return nil, fmt.Errorf("check dialect %s: two dialects have this name", d.Name)
		}
		for at, rt := range d.Routes {
			if rt.Parse == nil || rt.Path == "" {
				return nil, fmt.Errorf("check dialect %s: route %s has no path or no parser", d.Name, at)
			}
		}
		out[d.Name] = d
	}
	return out, nil
}

// serve finds the dialect of a request among those that the session has
// switched on, in their order.
func (s *session) serve(w http.ResponseWriter, r *http.Request) {
	x := &Exchange{W: w, R: r, s: s}
	at := r.Method + " " + r.URL.Path
	for _, name := range s.policy.Dialects {
		d := s.g.dialects[name]
		if rt, ok := d.Routes[at]; ok {
			x.Call(rt, nil)
			return
		}
		if d.Serve != nil && d.Serve(x) {
			return
		}
	}
	ref := &Refusal{Status: http.StatusForbidden, Code: "forbidden", Message: "this route is not open here"}
	s.refused(r.URL.Path, ref, ref.Status)
	ref.write(w)
}

// known lists the names of dialects for people, sorted.
func known(m map[string]Dialect) string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// reply is what a Route's Reply gets; w may be nil for a stream.
func (c *call) reply(w *wireReply, e *ending) Reply {
	r := Reply{ID: c.id, Model: c.o.model, Created: c.start, Message: e.message}
	if e.used.ok || e.message != nil {
		_, u, _ := c.charge(*e)
		r.Prompt, r.Completion = u.prompt, u.completion
	}
	if w == nil {
		return r
	}
	for _, d := range w.Data {
		r.Embeddings = append(r.Embeddings, d.Embedding)
	}
	return r
}

// Balance tells what the session's account has spent, and what is left of its budget.
func (x *Exchange) Balance() (spent, left Amount) { return x.s.acct.balance() }

// Session names the session: what an agent is given for one task.
func (x *Exchange) Session() string { return x.s.id }

// Run names the run that the session is of.
func (x *Exchange) Run() string { return x.s.policy.Run }

// Offered is a model that the session may call, and its price in micro-dollars per
// 1,000,000 tokens.
type Offered struct {
	Model   string
	In, Out int64
}

// Prices lists the models that the session may call at an endpoint, with their prices.
func (x *Exchange) Prices(endpoint string) []Offered {
	out := []Offered{}
	for _, o := range x.s.offers {
		if o.does(endpoint) {
			out = append(out, Offered{o.model, o.price.In, o.price.Out})
		}
	}
	return out
}

// Receipts are those of the session's settled calls so far, in order.
func (x *Exchange) Receipts() []agon.Receipt { return x.s.Receipts() }
