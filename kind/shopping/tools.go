package shopping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// JSON. ok is false where the arguments are such that the original service
	// fails; an error is the service's own failure.
	Answer(ctx context.Context, tool string, args map[string]string) (reply []byte, ok bool, err error)
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
	b, ok, err := t.s.Answer(ctx, t.name, args)
	switch {
	case err != nil:
		return tool.Reply{}, &provider.Failure{Class: provider.ClassServer, Detail: err.Error()}
	case !ok:
		return tool.Reply{}, &provider.Failure{Class: provider.ClassServer, Status: 500, Detail: "the arguments make the original service fail"}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(b, &list) // what is no list has no results
	return tool.Reply{Body: b, Results: int64(len(list))}, nil
}
