package gateway

import (
	"fmt"
	"net/http"

	"github.com/agon-arena/agon/gateway/provider"
)

// DialectAnthropic is Anthropic's form: POST /v1/messages and POST /v1/messages/count_tokens.
const DialectAnthropic = provider.FormAnthropic

const messagesPath = "/v1/messages"

// anthropic is the dialect of Anthropic's clients.
func anthropic() Dialect {
	rt := Route{Path: messagesPath, Parse: parseMessages, Reply: messagesReply, Refuse: messagesRefusal, stream: messagesStream}
	return Dialect{
		Name:   DialectAnthropic,
		Routes: map[string]Route{"POST " + messagesPath: rt},
		Serve: func(x *Exchange) bool {
			if x.R.Method != http.MethodPost || x.R.URL.Path != messagesPath+"/count_tokens" {
				return false
			}
			rt := rt
			rt.Parse = func(raw []byte, rules FieldRules) (*Request, error) { return parseMessagesOf(raw, rules, false) }
			x.s.count(x.W, x.R, rt, func(n int64) any { return map[string]int64{"input_tokens": n} })
			return true
		},
	}
}

// messagesForm is how Anthropic's upstreams are asked.
var messagesForm = form{
	name: provider.FormAnthropic,
	path: func(string, bool) string { return "/messages" },
	body: func(q *Request, model string, limit int64) []byte {
		b := fmt.Appendf(nil, `{"model":%s,"max_tokens":%d`, quoted(model), limit)
		if q.stream {
			b = append(b, `,"stream":true`...)
		}
		return append(append(append(b, ','), q.native...), '}')
	},
	fields: func(raw []byte, rules FieldRules) []byte {
		var b builder
		ms, _ := members(raw)
		for _, m := range ms {
			sub, ok := messagesShape[m.key]
			if !ok || isNull(m.value) || rules.strips(fieldsSampling) && messagesSampling[m.key] {
				continue
			}
			b.field(m.key, sub.keep(m.value))
		}
		return b.Bytes()
	},
	whole:  messagesWhole,
	events: messagesEvents,
	ping:   `"messages":[{"role":"user","content":"ping"}]`,
}

var messagesSampling = map[string]bool{"temperature": true, "top_p": true, "top_k": true}

// messagesShape is what goes on to an upstream of this form. Marks for its cache
// are left out: they cost what no price here covers.
var messagesShape = func() map[string]*shape {
	text := &shape{keys: map[string]*shape{"type": all, "text": all}, types: []string{"text"}}
	block := &shape{types: []string{"text", "tool_use", "tool_result", "thinking", "redacted_thinking"}, keys: map[string]*shape{
		"type": all, "text": all, "id": all, "name": all, "input": all, "tool_use_id": all, "is_error": all, "content": text,
		"thinking": all, "signature": all, "data": all,
	}}
	return map[string]*shape{
		"messages": {keys: map[string]*shape{"role": all, "content": block}}, "system": text,
		"temperature": all, "top_p": all, "top_k": all, "stop_sequences": all,
		"tools":         {types: []string{"", "custom"}, keys: map[string]*shape{"type": all, "name": all, "description": all, "input_schema": all}},
		"tool_choice":   {keys: map[string]*shape{"type": all, "name": all, "disable_parallel_tool_use": all}},
		"thinking":      {keys: map[string]*shape{"type": all, "budget_tokens": all, "display": all}},
		"output_config": {keys: map[string]*shape{"effort": all, "format": {keys: map[string]*shape{"type": all, "schema": all}}}},
	}
}()

// parseMessages reads a request of Anthropic's form and writes it in OpenAI's.
func parseMessages(raw []byte, rules FieldRules) (*Request, error) {
	return parseMessagesOf(raw, rules, true)
}

// parseMessagesOf is the same where no output limit need be named.
func parseMessagesOf(raw []byte, rules FieldRules, needLimit bool) (*Request, error) {
	ms, ok := members(raw)
	if !ok {
		return nil, BadField("", "body is not a JSON object")
	}
	var b builder
	var system [][]byte
	var list []byte
	limit := false
	for _, m := range ms {
		v, name := m.value, m.key
		if name != "metadata" { // names a user for the provider's own statistics: dropped
			if skip, err := refused(name, rules); err != nil {
				return nil, err
			} else if skip {
				continue
			}
		}
		if isNull(v) {
			continue
		}
		if messagesSampling[name] {
			if skip, err := sampling(name, rules); err != nil {
				return nil, err
			} else if skip {
				continue
			}
		}
		var err error
		switch name {
		case "container":
			if !rules.strips(fieldsState) {
				err = BadField(name, "not allowed here: %s", whyState)
			}
		case "model", "temperature", "top_p", "stream":
			b.field(name, v)
		case "top_k":
			if !isNumber(v) {
				err = BadField(name, "want a number")
			}
		case "max_tokens":
			limit = true
			b.field(name, v)
		case "stop_sequences":
			if es, ok := elements(v); !ok {
				err = BadField(name, "want a list")
			} else if len(es) > 0 {
				if stops(v) != nil {
					err = BadField(name, "want a list of at most 16 strings")
				}
				b.field("stop", v)
			}
		case "system":
			system, err = textBlocks(name, v, rules)
		case "messages":
			list = v
		case "tools":
			v, err = messagesTools(v, rules)
			if len(v) > 0 {
				b.field(name, v)
			}
		case "tool_choice":
			err = messagesChoice(v, &b)
		case "thinking":
			if !isObject(v) {
				err = BadField(name, "want an object")
			}
		case "output_config":
			if format := find(v, "format"); format != nil {
				schema := find(format, "schema")
				if textOf(format, "type") != "json_schema" || !isObject(schema) {
					err = BadField(name+".format", "want type json_schema and a schema")
				}
				b.field("response_format", fmt.Appendf(nil, `{"type":"json_schema","json_schema":{"name":"answer","schema":%s}}`, schema))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if needLimit && !limit {
		return nil, BadField("max_tokens", "missing")
	}
	es, ok := elements(list)
	if !ok || len(es) == 0 {
		return nil, BadField("messages", "want a list of at least one message")
	}
	var out chatBody
	out.Grow(len(list))
	if len(system) > 0 {
		out.message("system", key("content"), texts(system))
	}
	for i, e := range es {
		if err := turn(fmt.Sprintf("messages[%d]", i), e, rules, &out); err != nil {
			return nil, err
		}
	}
	b.field("messages", listed([][]byte{out.Bytes()}))
	return chatAs(&messagesForm, raw, b.Bytes(), rules)
}

// chatAs reads the members of a translated request as OpenAI has them.
func chatAs(f *form, raw, fields []byte, rules FieldRules) (*Request, error) {
	body := make([]byte, 0, len(fields)+2)
	q, err := ParseChat(append(append(append(body, '{'), fields...), '}'), rules)
	if err != nil {
		return nil, err
	}
	q.form, q.raw = f, raw
	return q, nil
}

func key(s string) []byte { return []byte(s) }

// textBlocks reads a text, or a list of blocks of text.
func textBlocks(at string, v []byte, rules FieldRules) ([][]byte, error) {
	if isString(v) {
		return [][]byte{v}, nil
	}
	es, ok := elements(v)
	if !ok {
		return nil, BadField(at, "want a string or a list of text blocks")
	}
	var out [][]byte
	for i, e := range es {
		typ, text := textOf(e, "type"), find(e, "text")
		switch {
		case typ != "text" && rules.strips(fieldsMedia):
		case typ != "text":
			return nil, BadField(fmt.Sprintf("%s[%d].type", at, i), "%.40q is not allowed here: text only", typ)
		case !isString(text):
			return nil, BadField(fmt.Sprintf("%s[%d].text", at, i), "want a string")
		default:
			out = append(out, text)
		}
	}
	return out, nil
}

// turn writes one message of Anthropic's form as those that OpenAI has for it.
func turn(at string, raw []byte, rules FieldRules, out *chatBody) error {
	role, content := textOf(raw, "role"), find(raw, "content")
	if role != "user" && role != "assistant" && role != "system" {
		return BadField(at+".role", "want user or assistant")
	}
	if isString(content) {
		out.message(role, key("content"), content)
		return nil
	}
	es, ok := elements(content)
	if !ok {
		return BadField(at+".content", "want a string or a list of blocks")
	}
	var words, calls [][]byte
	results := false
	for i, e := range es {
		at := fmt.Sprintf("%s.content[%d]", at, i)
		typ := textOf(e, "type")
		switch {
		case typ == "text":
			text := find(e, "text")
			if !isString(text) {
				return BadField(at+".text", "want a string")
			}
			words = append(words, text)
		case (typ == "thinking" || typ == "redacted_thinking") && role == "assistant":
			// An upstream of this form gets it back; to others it means nothing.
		case typ == "tool_use" && role == "assistant":
			id, name, input := find(e, "id"), find(e, "name"), find(e, "input")
			if !isString(id) || !isString(name) || !isObject(input) {
				return BadField(at, "want id and name as strings and input as an object")
			}
			calls = append(calls, chatCall(id, name, input))
		case typ == "tool_result" && role == "user":
			id := find(e, "tool_use_id")
			if !isString(id) {
				return BadField(at+".tool_use_id", "want a string")
			}
			text := []byte(`""`)
			if c := find(e, "content"); c != nil {
				parts, err := textBlocks(at+".content", c, rules)
				if err != nil {
					return err
				}
				text = joined(parts)
			}
			results = true
			// Results stand right behind the calls, whatever else the user says.
			out.message("tool", key("tool_call_id"), id, key("content"), text)
		case (typ == "image" || typ == "document") && rules.strips(fieldsMedia):
		default:
			return BadField(at+".type", "%.40q is not allowed here: text and tool calls only", typ)
		}
	}
	out.turn(role, words, calls, results)
	return nil
}

// messagesTools writes the client's own functions in OpenAI's form.
func messagesTools(v []byte, rules FieldRules) ([]byte, error) {
	es, ok := elements(v)
	if !ok {
		return nil, BadField("tools", "want a list")
	}
	var out [][]byte
	for i, e := range es {
		at := fmt.Sprintf("tools[%d]", i)
		if typ := find(e, "type"); typ != nil && (!isString(typ) || unquote(typ) != "custom") {
			if rules.strips(fieldsProviderTools) {
				continue
			}
			return nil, BadField(at+".type", "%.40s is not allowed here: only your own tools", typ)
		}
		name, schema := find(e, "name"), find(e, "input_schema")
		if !isString(name) || !isObject(schema) {
			return nil, BadField(at, "want a name and an input_schema")
		}
		out = append(out, chatTool(name, find(e, "description"), schema))
	}
	if len(out) == 0 {
		return nil, nil
	}
	return listed(out), nil
}

func messagesChoice(v []byte, b *builder) error {
	switch textOf(v, "type") {
	case "auto":
		b.field("tool_choice", []byte(`"auto"`))
	case "any":
		b.field("tool_choice", []byte(`"required"`))
	case "none":
		b.field("tool_choice", []byte(`"none"`))
	case "tool":
		name := find(v, "name")
		if !isString(name) {
			return BadField("tool_choice.name", "want a string")
		}
		b.field("tool_choice", fmt.Appendf(nil, `{"type":"function","function":{"name":%s}}`, name))
	default:
		return BadField("tool_choice.type", "want auto, any, tool or none")
	}
	if string(find(v, "disable_parallel_tool_use")) == "true" {
		b.field("parallel_tool_calls", []byte("false"))
	}
	return nil
}

// Reasons why a model stopped, in both forms.
var (
	toMessagesStop   = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
	fromMessagesStop = map[string]string{"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
)
