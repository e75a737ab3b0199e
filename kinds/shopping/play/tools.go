package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
)

// Searcher answers the tools of a catalogue. Arguments are texts by name, as
// they came in the request; what they mean is the searcher's business. Safe for
// concurrent use.
type Searcher interface {
	// Name says in receipts which catalogue answered.
	Name() string
	// Answer carries out find_product or view_product_information and returns
	// JSON with its HTTP status: 200, or one from 400 to 499 where it refuses
	// the arguments. An error is the service's own failure.
	Answer(ctx context.Context, tool string, args map[string]string) (reply []byte, status int, err error)
}

// Limits of a catalogue tool's arguments.
const (
	maxArgs    = 32
	maxArgName = 64       // bytes
	maxArgText = 32 << 10 // bytes of one value
)

// Tools returns the metered tools of a catalogue, at no price: a call costs a
// call of the budget.
func Tools(s Searcher) []tool.Tool {
	return []tool.Tool{catalogueTool{s, "find_product"}, catalogueTool{s, "view_product_information"}}
}

// ToolNames are the names of Tools, for an arena's policy.
func ToolNames() []string { return []string{"find_product", "view_product_information"} }

type catalogueTool struct {
	s    Searcher
	name string
}

func (t catalogueTool) Name() string      { return t.name }
func (t catalogueTool) Source() string    { return t.s.Name() }
func (t catalogueTool) Price() tool.Price { return tool.Price{Version: "free"} }

// Check reads an object of texts, numbers and booleans; null is as if it were not there.
func (t catalogueTool) Check(raw []byte) (any, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, errors.New("arguments: want a JSON object")
	}
	if len(m) > maxArgs {
		return nil, fmt.Errorf("arguments: %d, at most %d", len(m), maxArgs)
	}
	args := map[string]string{}
	for k, v := range m {
		if len(k) > maxArgName {
			return nil, fmt.Errorf("arguments: a name is longer than %d bytes", maxArgName)
		}
		text, err := argText(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		if text == nil {
			continue
		}
		if len(*text) > maxArgText {
			return nil, fmt.Errorf("%s: longer than %d bytes", k, maxArgText)
		}
		args[k] = *text
	}
	return args, nil
}

func argText(raw json.RawMessage) (*string, error) {
	var s string
	switch raw[0] {
	case '"':
		if err := json.Unmarshal(raw, &s); err != nil || !utf8.ValidString(s) {
			return nil, errors.New("want a text")
		}
	case 'n':
		return nil, nil
	case 't', 'f':
		s = string(raw)
	case '[', '{':
		return nil, errors.New("want a text or a number")
	default:
		var f float64
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, errors.New("want a text or a number")
		}
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return &s, nil
}

// Do asks the catalogue.
func (t catalogueTool) Do(ctx context.Context, checked any) (tool.Reply, error) {
	args, ok := checked.(map[string]string)
	if !ok {
		return tool.Reply{}, &provider.Failure{Class: provider.ClassBadReply, Detail: "arguments were not checked"}
	}
	b, status, err := t.s.Answer(ctx, t.name, args)
	if err != nil {
		return tool.Reply{}, &provider.Failure{Class: provider.ClassServer, Detail: err.Error()}
	}
	if status != http.StatusOK {
		return tool.Reply{Body: b, Status: status}, nil
	}
	var list []json.RawMessage
	_ = json.Unmarshal(b, &list) // what is not a list has no results
	return tool.Reply{Body: b, Results: int64(len(list))}, nil
}

// Service is a search service as HTTP: GET /find_product and
// /view_product_information (package shop/search).
type Service struct {
	Handler http.Handler
	Label   string // for receipts
}

// Answer implements Searcher. What the original service answers with 500 is
// the fault of the arguments: it is a 422 here.
func (s Service) Answer(ctx context.Context, tool string, args map[string]string) ([]byte, int, error) {
	q := url.Values{}
	for k, v := range args {
		q.Set(k, v)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://catalogue/"+tool+"?"+q.Encode(), nil)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the catalogue: %w", err)
	}
	w := &capture{head: http.Header{}, status: http.StatusOK}
	s.Handler.ServeHTTP(w, r)
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	switch {
	case w.status >= 500 && args["product_ids"] == "" && tool == "view_product_information":
		w.status = http.StatusUnprocessableEntity
	case w.status >= 500:
		return nil, 0, fmt.Errorf("ask the catalogue: status %d", w.status)
	}
	return w.body, w.status, nil
}

// capture is a response in memory.
type capture struct {
	head   http.Header
	status int
	body   []byte
}

func (c *capture) Header() http.Header    { return c.head }
func (c *capture) WriteHeader(status int) { c.status = status }
func (c *capture) Write(p []byte) (int, error) {
	c.body = append(c.body, p...)
	return len(p), nil
}
