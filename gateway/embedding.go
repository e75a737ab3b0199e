package gateway

import (
	"math"
	"strconv"

	"github.com/agon-arena/agon/gateway/provider"
)

// ParseEmbedding reads an embedding request as OpenAI has it. raw is a body as
// Route.Parse gets it.
func ParseEmbedding(raw []byte, rules FieldRules) (*Request, error) {
	ms, ok := members(raw)
	if !ok {
		return nil, BadField("", "body is not a JSON object")
	}
	q := &Request{path: provider.PathEmbeddings}
	var b builder
	for _, m := range ms {
		v := m.value
		if why, no := dangerous[m.key]; no {
			if rules.strips(groupOf(why)) {
				continue
			}
			return nil, BadField(m.key, "not allowed here: %s", why)
		}
		if isNull(v) {
			continue
		}
		var err error
		switch m.key {
		case "model":
			q.model, err = modelName(v)
		case "input":
			q.texts, err = inputs(v)
			b.field("input", v)
		case "encoding_format":
			if !isString(v) || (unquote(v) != "float" && unquote(v) != "base64") {
				return nil, BadField("encoding_format", "want float or base64")
			}
			b.field(m.key, v)
		case "dimensions":
			n, e := strconv.ParseInt(string(v), 10, 64)
			if e != nil || n < 1 || n > math.MaxInt32 {
				return nil, BadField("dimensions", "want a whole number ≥ 1")
			}
			b.field(m.key, v)
		}
		if err != nil {
			return nil, err
		}
	}
	if q.texts == 0 {
		return nil, BadField("input", "missing")
	}
	q.fields = b.Bytes()
	return q, nil
}

func inputs(v []byte) (int, error) {
	if isString(v) {
		return 1, nil
	}
	es, ok := elements(v)
	if !ok || len(es) == 0 || len(es) > maxInputs {
		return 0, BadField("input", "want a string or a list of 1 to %d strings", maxInputs)
	}
	for _, e := range es {
		if !isString(e) {
			return 0, BadField("input", "want strings")
		}
	}
	return len(es), nil
}
