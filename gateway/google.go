package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/gateway/provider"
)

// DialectGoogle is Gemini's form: POST /v1beta/models/NAME:generateContent,
// :streamGenerateContent?alt=sse and :countTokens.
const DialectGoogle = provider.FormGoogle

const (
	googleModels   = "/models/"
	googleGenerate = ":generateContent"
	googleStream   = ":streamGenerateContent"
	googleCount    = ":countTokens"
)

// google is the dialect of Gemini's clients. The model stands in the path.
func google() Dialect {
	return Dialect{Name: DialectGoogle, Serve: func(x *Exchange) bool {
		p, ok := strings.CutPrefix(x.R.URL.Path, "/v1beta"+googleModels)
		if !ok {
			p, ok = strings.CutPrefix(x.R.URL.Path, "/v1"+googleModels)
		}
		at := strings.LastIndexByte(p, ':')
		if !ok || x.R.Method != http.MethodPost || at <= 0 {
			return false
		}
		model, method := p[:at], p[at:]
		rt := Route{Path: googleModels + method[1:], Reply: googleReply, Refuse: googleRefusal, stream: googleEventsTo}
		rt.Parse = func(raw []byte, rules FieldRules) (*Request, error) {
			if method == googleStream && x.R.URL.Query().Get("alt") != "sse" {
				return nil, BadField("alt", "want ?alt=sse: streams are server-sent events here")
			}
			return parseGoogle(raw, rules, model, method == googleStream)
		}
		switch method {
		case googleGenerate, googleStream:
			x.Call(rt, nil)
		case googleCount:
			inner := rt.Parse
			rt.Parse = func(raw []byte, rules FieldRules) (*Request, error) {
				if whole := find(raw, "generateContentRequest"); whole != nil {
					raw = whole
				}
				return inner(raw, rules)
			}
			x.s.count(x.W, x.R, rt, func(n int64) any { return map[string]int64{"totalTokens": n} })
		default:
			return false
		}
		return true
	}}
}

// googleForm is how Google's upstreams are asked.
var googleForm = form{
	name: provider.FormGoogle,
	path: func(model string, stream bool) string {
		if stream {
			return googleModels + model + googleStream + "?alt=sse"
		}
		return googleModels + model + googleGenerate
	},
	body: func(q *Request, _ string, limit int64) []byte {
		var b builder
		config := builder{}
		config.field("candidateCount", []byte("1"))
		config.field("maxOutputTokens", strconv.AppendInt(nil, limit, 10))
		ms, _ := members(append(append([]byte{'{'}, q.native...), '}'))
		for _, m := range ms {
			if m.key != "generationConfig" {
				b.field(m.key, m.value)
				continue
			}
			inner, _ := members(m.value)
			for _, c := range inner {
				config.field(c.key, c.value)
			}
		}
		b.field("generationConfig", append(append([]byte{'{'}, config.Bytes()...), '}'))
		return append(append([]byte{'{'}, b.Bytes()...), '}')
	},
	fields: func(raw []byte, rules FieldRules) []byte {
		var b builder
		ms, _ := members(camels(raw))
		for _, m := range ms {
			name := m.key
			sub, ok := googleShape[name]
			if !ok || isNull(m.value) {
				continue
			}
			v := sub.keep(m.value)
			if name == "generationConfig" && rules.strips(fieldsSampling) {
				var c builder
				inner, _ := members(v)
				for _, x := range inner {
					if googleSampling[x.key] == "" {
						c.field(x.key, x.value)
					}
				}
				v = append(append([]byte{'{'}, c.Bytes()...), '}')
			}
			b.field(name, v)
		}
		return b.Bytes()
	},
	whole: googleWhole,
	events: func() func([]member) (wireReply, bool) {
		calls := 0
		return func(ms []member) (wireReply, bool) { return googleEvent(ms, &calls) }
	},
	ping: `"contents":[{"role":"user","parts":[{"text":"ping"}]}]`,
}

// googleSampling are the members of generationConfig that are sampling, as chat calls them.
var googleSampling = map[string]string{
	"temperature": "temperature", "topP": "top_p", "topK": "top_k", "seed": "seed", "presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty",
}

var googleShape = func() map[string]*shape {
	part := &shape{keys: map[string]*shape{
		"text": all, "thought": all, "thoughtSignature": all,
		"functionCall":     {keys: map[string]*shape{"id": all, "name": all, "args": all}},
		"functionResponse": {keys: map[string]*shape{"id": all, "name": all, "response": all}},
	}}
	content := &shape{keys: map[string]*shape{"role": all, "parts": part}}
	return map[string]*shape{
		"contents": content, "systemInstruction": content,
		"tools": {keys: map[string]*shape{"functionDeclarations": {keys: map[string]*shape{
			"name": all, "description": all, "parameters": all, "parametersJsonSchema": all, "response": all, "responseJsonSchema": all,
		}}}},
		"toolConfig": {keys: map[string]*shape{"functionCallingConfig": {keys: map[string]*shape{"mode": all, "allowedFunctionNames": all}}}},
		"generationConfig": {keys: map[string]*shape{
			"temperature": all, "topP": all, "topK": all, "seed": all, "presencePenalty": all, "frequencyPenalty": all, "stopSequences": all,
			"responseMimeType": all, "responseSchema": all, "responseJsonSchema": all,
			"thinkingConfig": {keys: map[string]*shape{"thinkingBudget": all, "thinkingLevel": all, "includeThoughts": all}},
		}},
	}
}()

// camel is a member's name as Google writes it; clients may also write snake_case.
func camel(s string) string {
	if !strings.Contains(s, "_") {
		return s
	}
	parts := strings.Split(s, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

// camels renames the members of a request's own shapes, not those of arguments,
// answers and schemas, whose names are the client's.
func camels(raw []byte) []byte {
	if es, ok := elements(raw); ok {
		out := make([][]byte, len(es))
		for i, e := range es {
			out[i] = camels(e)
		}
		return listed(out)
	}
	ms, ok := members(raw)
	if !ok {
		return raw
	}
	var b builder
	seen := map[string]bool{}
	for _, m := range ms {
		name, v := camel(m.key), m.value
		if seen[name] {
			continue // the same in both spellings
		}
		seen[name] = true
		switch name {
		case "args", "response", "parameters", "parametersJsonSchema", "responseJsonSchema", "responseSchema":
		default:
			v = camels(v)
		}
		b.Grow(len(name) + len(v) + 4)
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(name))
		b.WriteByte(':')
		b.Write(v)
	}
	return append(append([]byte{'{'}, b.Bytes()...), '}')
}

// parseGoogle reads a request of Gemini's form and writes it in OpenAI's.
func parseGoogle(raw []byte, rules FieldRules, model string, stream bool) (*Request, error) {
	if _, ok := members(raw); !ok {
		return nil, BadField("", "body is not a JSON object")
	}
	ms, _ := members(camels(raw))
	var b builder
	b.field("model", quoted(model))
	if stream {
		b.field("stream", []byte("true"))
	}
	var out chatBody
	var list, choice []byte
	for _, m := range ms {
		v, name := m.value, m.key
		if isNull(v) {
			continue
		}
		var err error
		switch name {
		case "contents":
			list = v
		case "systemInstruction":
			var words [][]byte
			if words, err = googleWords(name, v, rules); err == nil && len(words) > 0 {
				out.message("system", key("content"), texts(words))
			}
		case "tools":
			if v, err = googleTools(v, rules); err == nil && len(v) > 0 {
				b.field("tools", v)
			}
		case "toolConfig":
			choice, err = googleChoice(find(v, "functionCallingConfig"))
		case "generationConfig":
			err = googleConfig(v, rules, &b)
		case "cachedContent":
			if !rules.strips(fieldsState) {
				err = BadField(name, "not allowed here: %s", whyState)
			}
		case "safetySettings", "labels", "model": // no model's text depends on a label; the model stands in the path
		default:
			_, err = refused(name, rules)
		}
		if err != nil {
			return nil, err
		}
	}
	if choice != nil {
		b.field("tool_choice", choice)
	}
	es, ok := elements(list)
	if !ok || len(es) == 0 {
		return nil, BadField("contents", "want a list of at least one content")
	}
	var ids googleIDs
	for i, e := range es {
		if err := ids.turn(fmt.Sprintf("contents[%d]", i), e, rules, &out); err != nil {
			return nil, err
		}
	}
	b.field("messages", listed([][]byte{out.Bytes()}))
	return chatAs(&googleForm, raw, b.Bytes(), rules)
}

// googleConfig writes what generationConfig says as chat has it.
func googleConfig(v []byte, rules FieldRules, b *builder) error {
	ms, ok := members(v)
	if !ok {
		return BadField("generationConfig", "want an object")
	}
	var format, schema []byte
	for _, m := range ms {
		v, at := m.value, "generationConfig."+m.key
		if isNull(v) {
			continue
		}
		if name := googleSampling[m.key]; name != "" {
			if skip, err := sampling(name, rules); err != nil {
				return BadField(at, "not allowed here: sampling is fixed")
			} else if skip {
				continue
			}
			if !isNumber(v) {
				return BadField(at, "want a number")
			}
			if name != "top_k" { // chat has none
				b.field(name, v)
			}
			continue
		}
		switch m.key {
		case "maxOutputTokens":
			if n, e := strconv.ParseInt(string(v), 10, 64); e != nil || n < 1 {
				return BadField(at, "want a whole number ≥ 1")
			}
			b.field("max_tokens", v)
		case "stopSequences":
			es, ok := elements(v)
			if !ok || len(es) > 0 && stops(v) != nil {
				return BadField(at, "want a list of at most 16 strings")
			}
			if len(es) > 0 {
				b.field("stop", v)
			}
		case "candidateCount":
			if string(v) != "1" && !rules.strips(fieldsN) {
				return BadField(at, "only one answer per call")
			}
		case "responseMimeType":
			if format = v; !isString(v) {
				return BadField(at, "want a string")
			}
		case "responseSchema", "responseJsonSchema":
			if schema = v; !isObject(v) {
				return BadField(at, "want an object")
			}
		case "responseModalities":
			es, _ := elements(v)
			for _, e := range es {
				if !isString(e) || unquote(e) != "TEXT" {
					return BadField(at, "not allowed here: %s", whyText)
				}
			}
		case "responseLogprobs":
			if string(v) == "true" {
				b.field("logprobs", v)
			}
		case "logprobs":
			b.field("top_logprobs", v)
		case "thinkingConfig":
			if !isObject(v) {
				return BadField(at, "want an object")
			}
		}
	}
	switch {
	case schema != nil:
		b.field("response_format", fmt.Appendf(nil, `{"type":"json_schema","json_schema":{"name":"answer","schema":%s}}`, lowTypes(schema)))
	case format != nil && unquote(format) == "application/json":
		b.field("response_format", []byte(`{"type":"json_object"}`))
	}
	return nil
}

// lowTypes writes the types of a schema in lower case, as JSON Schema has them.
func lowTypes(raw []byte) []byte {
	if es, ok := elements(raw); ok {
		out := make([][]byte, len(es))
		for i, e := range es {
			out[i] = lowTypes(e)
		}
		return listed(out)
	}
	ms, ok := members(raw)
	if !ok {
		return raw
	}
	var out []byte
	for i, m := range ms {
		v := lowTypes(m.value)
		if m.key == "type" && isString(v) {
			v = quoted(strings.ToLower(unquote(v)))
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted(m.key)...), ':'), v...)
	}
	return append(append([]byte{'{'}, out...), '}')
}

// googleTools writes the client's own functions in OpenAI's form.
func googleTools(v []byte, rules FieldRules) ([]byte, error) {
	es, ok := elements(v)
	if !ok {
		return nil, BadField("tools", "want a list")
	}
	var out [][]byte
	for i, e := range es {
		ms, ok := members(e)
		if !ok {
			return nil, BadField(fmt.Sprintf("tools[%d]", i), "want an object")
		}
		for _, m := range ms {
			at := fmt.Sprintf("tools[%d].%s", i, m.key)
			if isNull(m.value) {
				continue
			}
			if m.key != "functionDeclarations" {
				if rules.strips(fieldsProviderTools) {
					continue
				}
				return nil, BadField(at, "not allowed here: only your own functions")
			}
			fs, ok := elements(m.value)
			if !ok {
				return nil, BadField(at, "want a list")
			}
			for j, f := range fs {
				name, schema := find(f, "name"), find(f, "parametersJsonSchema")
				if schema == nil {
					if schema = find(f, "parameters"); schema != nil {
						schema = lowTypes(schema)
					}
				}
				if !isString(name) || schema != nil && !isObject(schema) {
					return nil, BadField(fmt.Sprintf("%s[%d]", at, j), "want a name, and parameters as an object")
				}
				out = append(out, chatTool(name, find(f, "description"), schema))
			}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return listed(out), nil
}

func googleChoice(v []byte) ([]byte, error) {
	const at = "toolConfig.functionCallingConfig"
	names, _ := elements(orNull(find(v, "allowedFunctionNames")))
	switch strings.ToUpper(textOf(v, "mode")) {
	case "", "AUTO", "MODE_UNSPECIFIED":
		return nil, nil
	case "NONE":
		return []byte(`"none"`), nil
	case "ANY", "VALIDATED":
		if len(names) == 1 && isString(names[0]) {
			return fmt.Appendf(nil, `{"type":"function","function":{"name":%s}}`, names[0]), nil
		}
		return []byte(`"required"`), nil
	}
	return nil, BadField(at+".mode", "want AUTO, ANY or NONE")
}

// googleWords reads the text of a content: an object with parts, a list of parts, or a string.
func googleWords(at string, v []byte, rules FieldRules) ([][]byte, error) {
	if isString(v) {
		return [][]byte{v}, nil
	}
	parts, ok := elements(orNull(find(v, "parts")))
	if !ok {
		if find(v, "text") == nil {
			return nil, BadField(at, "want parts of text")
		}
		parts = [][]byte{v}
	}
	var out [][]byte
	for i, p := range parts {
		text := find(p, "text")
		switch {
		case isString(text):
			out = append(out, text)
		case !rules.strips(fieldsMedia):
			return nil, BadField(fmt.Sprintf("%s.parts[%d]", at, i), "not allowed here: text only")
		}
	}
	return out, nil
}

// googleIDs gives function calls ids, which this form may leave out.
type googleIDs struct {
	n    int
	open []struct{ name, id string } // calls without an answer
}

func (g *googleIDs) turn(at string, raw []byte, rules FieldRules, out *chatBody) error {
	role := textOf(raw, "role")
	switch role {
	case "", "user", "function":
		role = "user"
	case "model":
		role = "assistant"
	default:
		return BadField(at+".role", "want user or model")
	}
	parts, ok := elements(orNull(find(raw, "parts")))
	if !ok {
		return BadField(at+".parts", "want a list of parts")
	}
	var words, calls [][]byte
	results := false
	for i, p := range parts {
		at := fmt.Sprintf("%s.parts[%d]", at, i)
		text, call, answer := find(p, "text"), find(p, "functionCall"), find(p, "functionResponse")
		switch {
		case string(find(p, "thought")) == "true":
			// An upstream of this form gets it back; to others it means nothing.
		case text != nil:
			if !isString(text) {
				return BadField(at+".text", "want a string")
			}
			words = append(words, text)
		case call != nil && role == "assistant":
			name, args := find(call, "name"), find(call, "args")
			if args == nil {
				args = []byte("{}")
			}
			if !isString(name) || !isObject(args) {
				return BadField(at+".functionCall", "want a name and args as an object")
			}
			id := textOf(call, "id")
			if id == "" {
				g.n++
				id = fmt.Sprintf("call_%d", g.n)
			}
			g.open = append(g.open, struct{ name, id string }{unquote(name), id})
			calls = append(calls, chatCall(quoted(id), name, args))
		case answer != nil && role == "user":
			name, said := find(answer, "name"), find(answer, "response")
			if !isString(name) || said == nil {
				return BadField(at+".functionResponse", "want a name and a response")
			}
			id := textOf(answer, "id")
			if id == "" {
				id = g.answered(unquote(name))
			}
			results = true
			out.message("tool", key("tool_call_id"), quoted(id), key("content"), quoted(string(said)))
		case find(p, "thoughtSignature") != nil:
		case !rules.strips(fieldsMedia):
			return BadField(at, "not allowed here: text and function calls only")
		}
	}
	out.turn(role, words, calls, results)
	return nil
}

// answered is the id of the oldest call of a function that has no answer yet.
func (g *googleIDs) answered(name string) string {
	for i, c := range g.open {
		if c.name == name {
			g.open = append(g.open[:i], g.open[i+1:]...)
			return c.id
		}
	}
	return "call_0"
}
