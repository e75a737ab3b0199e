package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/agon-arena/agon/gateway/provider"
)

// Limits of a request's shape.
const (
	maxMessages = 4096
	maxTools    = 256
	maxInputs   = 2048
	maxName     = 256 // bytes of a model's name
)

// Request is a call reduced to what may reach a model. ParseChat and
// ParseEmbedding make one; a dialect may add to it.
type Request struct {
	// Limit is the most tokens that the reply may have; 0: the client gave none.
	Limit int64
	// Claim is the run that the client names. It is recorded and identifies nothing.
	Claim string

	path   string // provider.PathChat or PathEmbeddings
	model  string // as asked for; empty = the session's default
	stream bool
	fields []byte // `"messages":[…],"temperature":0.7,…`: everything but model, stream and limit
	texts  int    // messages or inputs: each may cost some tokens beyond its text

	form   *form  // in which the client asked, nil: OpenAI's
	raw    []byte // with form: as the client wrote it
	native []byte // fields in that form, where an upstream takes it
}

// prompt is the text whose tokens bound those of the prompt, in whatever form it goes out.
func (q *Request) prompt() []byte {
	if len(q.native) > len(q.fields) {
		return q.native
	}
	return q.fields
}

// Set adds a field that ParseChat and ParseEmbedding left out. It goes to the
// provider as it is: value is a dialect's own, or checked by it.
func (q *Request) Set(name string, value json.RawMessage) {
	b := builder{}
	b.Write(q.fields)
	b.field(name, value)
	q.fields = b.Bytes()
}

// body is what the upstream gets. limitField is empty for embeddings.
func (q *Request) body(model string, limit int64, limitField string) []byte {
	name, _ := json.Marshal(model) // a string always encodes
	var b bytes.Buffer
	b.Grow(len(q.fields) + len(name) + 128)
	b.WriteString(`{"model":`)
	b.Write(name)
	b.WriteByte(',')
	b.Write(q.fields)
	if limitField != "" {
		fmt.Fprintf(&b, `,%q:%d`, limitField, limit)
		if q.stream {
			// Without usage at the end a stream could only be estimated.
			b.WriteString(`,"stream":true,"stream_options":{"include_usage":true}`)
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// fieldError is a request that the gateway refuses; it names the field.
type fieldError struct {
	field, msg string
}

func (e *fieldError) Error() string {
	if e.field == "" {
		return e.msg
	}
	return e.field + ": " + e.msg
}

// BadField is the error of a request whose field is wrong; "" is the whole body.
func BadField(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// builder writes the allowed fields in the order in which they came.
type builder struct{ bytes.Buffer }

func (b *builder) field(name string, raw []byte) {
	if b.Len() > 0 {
		b.WriteByte(',')
	}
	b.WriteByte('"')
	b.WriteString(name)
	b.WriteString(`":`)
	b.Write(raw)
}

// ParseChat reads a chat completion request as OpenAI has it, and keeps what may
// reach a model. raw is a body as Route.Parse gets it.
func ParseChat(raw []byte, rules FieldRules) (*Request, error) {
	ms, ok := members(raw)
	if !ok {
		return nil, BadField("", "body is not a JSON object")
	}
	q := &Request{path: provider.PathChat}
	var b builder
	seen := false
	for _, m := range ms {
		v, name := m.value, m.key
		if why, no := dangerous[name]; no {
			if rules.strips(groupOf(why)) {
				continue
			}
			return nil, BadField(name, "not allowed here: %s", why)
		}
		if isNull(v) {
			continue
		}
		if samplingField[name] {
			if rules[fieldsSampling] == fieldRefuse {
				return nil, BadField(name, "not allowed here: sampling is fixed")
			}
			if rules.strips(fieldsSampling) {
				continue
			}
		}
		var err error
		switch name {
		case "model":
			q.model, err = modelName(v)
		case "messages":
			seen = true
			v, q.texts, err = messages(v, rules)
			b.field(name, v)
		case "temperature", "top_p", "frequency_penalty", "presence_penalty":
			if !isNumber(v) {
				return nil, BadField(name, "want a number")
			}
			b.field(name, v)
		case "seed":
			if _, e := strconv.ParseInt(string(v), 10, 64); e != nil {
				return nil, BadField(name, "want a whole number")
			}
			b.field(name, v)
		case "max_tokens", "max_completion_tokens":
			n, e := strconv.ParseInt(string(v), 10, 64)
			if e != nil || n < 1 {
				return nil, BadField(name, "want a whole number ≥ 1")
			}
			if q.Limit == 0 || n < q.Limit {
				q.Limit = n
			}
		case "stream":
			if !isBool(v) {
				return nil, BadField(name, "want true or false")
			}
			q.stream = string(v) == "true"
		case "n":
			if string(v) != "1" && !rules.strips(fieldsN) {
				return nil, BadField(name, "only one answer per call")
			}
		case "stop":
			err = stops(v)
			b.field(name, v)
		case "response_format":
			v, err = responseFormat(v)
			b.field(name, v)
		case "tools":
			v, err = tools(v, rules)
			if len(v) > 0 {
				b.field(name, v)
			}
		case "tool_choice":
			v, err = toolChoice(v)
			b.field(name, v)
		case "parallel_tool_calls", "logprobs", "return_token_ids":
			if !isBool(v) {
				return nil, BadField(name, "want true or false")
			}
			b.field(name, v)
		case "top_logprobs":
			if n, e := strconv.ParseInt(string(v), 10, 64); e != nil || n < 0 || n > 20 {
				return nil, BadField(name, "want a whole number from 0 to 20")
			}
			b.field(name, v)
		}
		if err != nil {
			return nil, err
		}
	}
	if !seen {
		return nil, BadField("messages", "missing")
	}
	q.fields = b.Bytes()
	return q, nil
}

func modelName(v []byte) (string, error) {
	if !isString(v) {
		return "", BadField("model", "want a string")
	}
	s := unquote(v)
	if len(s) > maxName {
		return "", BadField("model", "longer than %d bytes", maxName)
	}
	return s, nil
}

var roles = map[string]bool{"system": true, "developer": true, "user": true, "assistant": true, "tool": true}

// messages rebuilds the conversation: known roles, text only.
func messages(v []byte, rules FieldRules) ([]byte, int, error) {
	es, ok := elements(v)
	if !ok || len(es) == 0 {
		return nil, 0, BadField("messages", "want a list of at least one message")
	}
	if len(es) > maxMessages {
		return nil, 0, BadField("messages", "more than %d", maxMessages)
	}
	var out bytes.Buffer
	out.Grow(len(v))
	out.WriteByte('[')
	for i, e := range es {
		if i > 0 {
			out.WriteByte(',')
		}
		m, err := messageOf(fmt.Sprintf("messages[%d]", i), e, rules)
		if err != nil {
			return nil, 0, err
		}
		out.WriteByte('{')
		out.Write(m)
		out.WriteByte('}')
	}
	out.WriteByte(']')
	return out.Bytes(), len(es), nil
}

func messageOf(at string, raw []byte, rules FieldRules) ([]byte, error) {
	ms, ok := members(raw)
	if !ok {
		return nil, BadField(at, "want an object")
	}
	var b builder
	role, content, calls := "", false, false
	for _, m := range ms {
		v := m.value
		switch m.key {
		case "role":
			if !isString(v) || !roles[unquote(v)] {
				return nil, BadField(at+".role", "want system, developer, user, assistant or tool")
			}
			role = unquote(v)
			b.field("role", v)
		case "content":
			v, err := contentOf(at+".content", v, rules)
			if err != nil {
				return nil, err
			}
			content = content || !isNull(v)
			b.field("content", v)
		case "name", "tool_call_id":
			if isNull(v) {
				continue
			}
			if !isString(v) {
				return nil, BadField(at+"."+m.key, "want a string")
			}
			b.field(m.key, v)
		case "tool_calls":
			if isNull(v) {
				continue
			}
			v, err := toolCalls(at+".tool_calls", v)
			if err != nil {
				return nil, err
			}
			if len(v) > 0 {
				calls = true
				b.field("tool_calls", v)
			}
		case "audio", "function_call", "attachments", "files":
			if !isNull(v) {
				return nil, BadField(at+"."+m.key, "not allowed here: text and tool calls only")
			}
		}
	}
	switch {
	case role == "":
		return nil, BadField(at+".role", "missing")
	case calls && role != "assistant":
		return nil, BadField(at+".tool_calls", "only an assistant's message has them")
	case !content && !calls && role != "assistant":
		return nil, BadField(at+".content", "missing")
	}
	return b.Bytes(), nil
}

// contentOf allows a string, null, or a list of text parts.
func contentOf(at string, v []byte, rules FieldRules) ([]byte, error) {
	if isString(v) || isNull(v) {
		return v, nil
	}
	es, ok := elements(v)
	if !ok || len(es) == 0 {
		return nil, BadField(at, "want a string or a list of text parts")
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, e := range es {
		at := fmt.Sprintf("%s[%d]", at, i)
		ms, ok := members(e)
		if !ok {
			return nil, BadField(at, "want an object")
		}
		typ, text := "", []byte(nil)
		for _, m := range ms {
			switch m.key {
			case "type":
				if !isString(m.value) {
					return nil, BadField(at+".type", "want a string")
				}
				typ = unquote(m.value)
			case "text":
				text = m.value
			}
		}
		if typ != "text" && rules.strips(fieldsMedia) {
			continue
		}
		if typ != "text" {
			return nil, BadField(at+".type", "%.40q is not allowed here: text parts only", typ)
		}
		if !isString(text) {
			return nil, BadField(at+".text", "want a string")
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.WriteString(`{"type":"text","text":`)
		out.Write(text)
		out.WriteByte('}')
	}
	if out.Len() == 1 {
		return []byte(`""`), nil // nothing but what was stripped
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

// toolCalls rebuilds an assistant's calls; an empty list gives nothing.
func toolCalls(at string, v []byte) ([]byte, error) {
	es, ok := elements(v)
	if !ok {
		return nil, BadField(at, "want a list")
	}
	if len(es) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, e := range es {
		at := fmt.Sprintf("%s[%d]", at, i)
		ms, ok := members(e)
		if !ok {
			return nil, BadField(at, "want an object")
		}
		var id, name, args []byte
		for _, m := range ms {
			switch m.key {
			case "id":
				id = m.value
			case "type":
				if !isString(m.value) || unquote(m.value) != "function" {
					return nil, BadField(at+".type", "only function is allowed")
				}
			case "function":
				fs, ok := members(m.value)
				if !ok {
					return nil, BadField(at+".function", "want an object")
				}
				for _, f := range fs {
					switch f.key {
					case "name":
						name = f.value
					case "arguments":
						args = f.value
					}
				}
			}
		}
		if !isString(id) || !isString(name) || !isString(args) {
			return nil, BadField(at, "want id, function.name and function.arguments as strings")
		}
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, id, name, args)
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

// tools rebuilds the client's own functions; an empty list gives nothing.
func tools(v []byte, rules FieldRules) ([]byte, error) {
	es, ok := elements(v)
	if !ok {
		return nil, BadField("tools", "want a list")
	}
	if len(es) > maxTools {
		return nil, BadField("tools", "more than %d", maxTools)
	}
	if len(es) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, e := range es {
		at := fmt.Sprintf("tools[%d]", i)
		ms, ok := members(e)
		if !ok {
			return nil, BadField(at, "want an object")
		}
		typ := ""
		var fn []byte
		for _, m := range ms {
			switch m.key {
			case "type":
				if isString(m.value) {
					typ = unquote(m.value)
				}
			case "function":
				fn = m.value
			}
		}
		if typ != "function" && rules.strips(fieldsProviderTools) {
			continue
		}
		if typ != "function" {
			return nil, BadField(at+".type", "%.40q is not allowed here: only function", typ)
		}
		fs, ok := members(fn)
		if !ok {
			return nil, BadField(at+".function", "want an object")
		}
		var b builder
		named := false
		for _, f := range fs {
			if isNull(f.value) {
				continue
			}
			good := true
			switch f.key {
			case "name":
				named = isString(f.value)
				good = named
			case "description":
				good = isString(f.value)
			case "parameters":
				good = isObject(f.value)
			case "strict":
				good = isBool(f.value)
			default:
				continue
			}
			if !good {
				return nil, BadField(at+".function."+f.key, "wrong type")
			}
			b.field(f.key, f.value)
		}
		if !named {
			return nil, BadField(at+".function.name", "missing")
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.WriteString(`{"type":"function","function":{`)
		out.Write(b.Bytes())
		out.WriteString(`}}`)
	}
	if out.Len() == 1 {
		return nil, nil
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

func toolChoice(v []byte) ([]byte, error) {
	if isString(v) {
		switch unquote(v) {
		case "none", "auto", "required":
			return v, nil
		}
		return nil, BadField("tool_choice", "want none, auto, required or a function")
	}
	ms, _ := members(v)
	typ := ""
	var name []byte
	for _, m := range ms {
		switch m.key {
		case "type":
			if isString(m.value) {
				typ = unquote(m.value)
			}
		case "function":
			fs, _ := members(m.value)
			for _, f := range fs {
				if f.key == "name" {
					name = f.value
				}
			}
		}
	}
	if typ != "function" || !isString(name) {
		return nil, BadField("tool_choice", "want none, auto, required or a function")
	}
	return fmt.Appendf(nil, `{"type":"function","function":{"name":%s}}`, name), nil
}

func stops(v []byte) error {
	if isString(v) {
		return nil
	}
	es, ok := elements(v)
	if !ok || len(es) == 0 || len(es) > 16 {
		return BadField("stop", "want a string or a list of at most 16")
	}
	for _, e := range es {
		if !isString(e) {
			return BadField("stop", "want strings")
		}
	}
	return nil
}

func responseFormat(v []byte) ([]byte, error) {
	ms, ok := members(v)
	if !ok {
		return nil, BadField("response_format", "want an object")
	}
	typ := ""
	var schema []byte
	for _, m := range ms {
		switch m.key {
		case "type":
			if isString(m.value) {
				typ = unquote(m.value)
			}
		case "json_schema":
			schema = m.value
		}
	}
	switch typ {
	case "text", "json_object":
		return fmt.Appendf(nil, `{"type":%q}`, typ), nil
	case "json_schema":
		if !isObject(schema) {
			return nil, BadField("response_format.json_schema", "want an object")
		}
		return fmt.Appendf(nil, `{"type":"json_schema","json_schema":%s}`, schema), nil
	}
	return nil, BadField("response_format.type", "want text, json_object or json_schema")
}
