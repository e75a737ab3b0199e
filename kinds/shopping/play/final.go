package play

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/agon-arena/agon/corpus"
)

// FinalCall is how an episode hands over its answer: products that it was shown.
func FinalCall() *corpus.FinalCall {
	return &corpus.FinalCall{
		Tool: "recommend_product", Marks: ToolNames(), IDs: recommended, Noun: "product", End: "terminate",
		Credit: credits(), Rule: "rule", Judge: "quality",
	}
}

var errNoIDs = errors.New("no product ids")

// recommended reads the arguments of a recommendation; product_ids is "1,2",
// ["1","2"] or [1,2].
func recommended(args string) ([]string, error) {
	var a struct {
		IDs json.RawMessage `json:"product_ids"`
		ID  json.RawMessage `json:"product_id"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil {
		return nil, err
	}
	raw := a.IDs
	if len(raw) == 0 {
		raw = a.ID
	}
	var out []string
	var text string
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &text) == nil:
		out = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
	case json.Unmarshal(raw, &list) == nil:
		for _, x := range list {
			out = append(out, strings.Trim(string(x), `"`))
		}
	case len(raw) > 0:
		out = append(out, string(raw))
	}
	out = slices.DeleteFunc(out, func(s string) bool { return s == "" })
	if len(out) == 0 {
		return nil, errNoIDs
	}
	return out, nil
}
