package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon/gateway/provider"
)

// form is a wire form of model calls besides OpenAI's chat. A client asks in
// it; an upstream that takes it is asked in it too, and any other in OpenAI's.
type form struct {
	name string // of provider.Forms
	// fields keeps what may reach a model of a request that was parsed before.
	fields func(raw []byte, rules FieldRules) []byte
	path   func(model string, stream bool) string
	// body is what the upstream gets.
	body func(q *Request, model string, limit int64) []byte
	// whole reads a reply that is one JSON object as what it would be in OpenAI's form.
	whole func(ms []member) (w wireReply, ok bool)
	// events returns a reader of a stream's events, which keeps what several of them
	// say together; done: the stream is at its end.
	events func() func(ms []member) (w wireReply, done bool)
	ping   string // the fields of the smallest request
}

// forms are all, by name.
var forms = map[string]*form{}

func init() {
	for _, f := range []*form{&messagesForm, &responsesForm, &googleForm} {
		forms[f.name] = f
	}
}

const (
	eventStream = "text/event-stream; charset=utf-8"
	// formOverhead is what a provider adds to a prompt of its own form, in tokens:
	// words that explain the tools.
	formOverhead = 1024
)

// wire is the form's name, "" for OpenAI's.
func (f *form) wire() string {
	if f == nil {
		return ""
	}
	return f.name
}

// parse reads a whole reply; false if it is not an answer.
func (f *form) parse(b []byte) (*wireReply, bool) {
	if f == nil {
		return parseReply(b)
	}
	if i := skipSpace(b, 0); i == len(b) || b[i] != '{' || !json.Valid(b) {
		return nil, false
	}
	ms, _ := members(b)
	w, ok := f.whole(ms)
	return &w, ok
}

// reader reads the events of a stream in this form; nil for OpenAI's.
func (f *form) reader() func(data []byte) (wireReply, bool) {
	if f == nil {
		return nil
	}
	read := f.events()
	return func(data []byte) (wireReply, bool) {
		if !json.Valid(data) {
			return wireReply{}, false
		}
		ms, _ := members(data)
		return read(ms)
	}
}

// own is the form in which an upstream is asked that does not take OpenAI's.
func (t *target) own() *form {
	if provider.Speaks(t.up, "") {
		return nil
	}
	for _, name := range provider.Forms {
		if provider.Speaks(t.up, name) {
			return forms[name]
		}
	}
	return nil
}

// translator writes a stream of a chat in the events of another form.
type translator interface {
	// chunk writes one event of the chat; the result is the caller's.
	chunk(w *wireReply) []byte
	// end writes what comes after the last.
	end(r Reply) []byte
}

// asChunk makes of a whole reply the one event that says as much.
func (w *wireReply) asChunk() *wireReply {
	out := wireReply{Usage: w.Usage}
	if len(w.Choices) > 0 && w.Choices[0].Message != nil {
		c := w.Choices[0]
		m := *c.Message
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i].Index = i // a whole reply has none
		}
		out.Choices = []wireChoice{{Delta: &m, Finish: c.Finish}}
	}
	return &out
}

// shape is an allow-list of an object's members, in depth. Lists of objects
// have the shape of their elements.
type shape struct {
	// keys are the members that are kept; nil: all of the value.
	keys map[string]*shape
	// types are the values of "type" that an element of a list may have; none: any.
	types []string
}

// all keeps a value as it is.
var all *shape

// keep returns what of a value the shape allows. raw is checked JSON.
func (s *shape) keep(raw []byte) []byte {
	if s == nil {
		return raw
	}
	if es, ok := elements(raw); ok {
		out := []byte{'['}
		for _, e := range es {
			if len(s.types) > 0 && isObject(e) && !slices.Contains(s.types, textOf(e, "type")) {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, s.keep(e)...)
		}
		return append(out, ']')
	}
	ms, ok := members(raw)
	if !ok {
		return raw
	}
	var b builder
	for _, m := range ms {
		if sub, ok := s.keys[m.key]; ok && !isNull(m.value) {
			b.field(m.key, sub.keep(m.value))
		}
	}
	return slices.Concat([]byte{'{'}, b.Bytes(), []byte{'}'})
}

// find returns a member of an object, nil if there is none.
func find(raw []byte, name string) []byte {
	ms, _ := members(raw)
	for _, m := range ms {
		if m.key == name && !isNull(m.value) {
			return m.value
		}
	}
	return nil
}

// textOf is a member that is a text, "" if there is none.
func textOf(raw []byte, name string) string {
	if v := find(raw, name); isString(v) {
		return unquote(v)
	}
	return ""
}

// quoted is a text as JSON.
func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

// refused says what becomes of a member that no form may send on: an error, or
// that it is left out.
func refused(name string, rules FieldRules) (skip bool, err error) {
	why, no := dangerous[name]
	switch {
	case !no:
		return false, nil
	case rules.strips(groupOf(why)):
		return true, nil
	}
	return true, BadField(name, "not allowed here: %s", why)
}

// sampling says the same of a member that is sampling.
func sampling(name string, rules FieldRules) (skip bool, err error) {
	if rules[fieldsSampling] == fieldRefuse {
		return true, BadField(name, "not allowed here: sampling is fixed")
	}
	return rules.strips(fieldsSampling), nil
}

// chatBody collects the messages of a chat.
type chatBody struct {
	bytes.Buffer
	n int
}

func (b *chatBody) message(role string, fields ...[]byte) {
	if b.n++; b.n > 1 {
		b.WriteByte(',')
	}
	fmt.Fprintf(b, `{"role":%q`, role)
	for i := 0; i+1 < len(fields); i += 2 {
		fmt.Fprintf(b, `,"%s":%s`, fields[i], fields[i+1])
	}
	b.WriteByte('}')
}

// turn adds what one side said: words and calls, or nothing but the results of calls
// that were added before, of which no message more is made.
func (b *chatBody) turn(role string, words, calls [][]byte, results bool) {
	switch {
	case len(calls) > 0 && len(words) > 0:
		b.message(role, key("content"), joined(words), key("tool_calls"), listed(calls))
	case len(calls) > 0:
		b.message(role, key("tool_calls"), listed(calls))
	case role == "assistant":
		b.message(role, key("content"), joined(words))
	case len(words) > 0:
		b.message(role, key("content"), texts(words))
	case !results:
		b.message(role, key("content"), []byte(`""`))
	}
}

// texts is the content of a message: one text as it stands, several as parts.
func texts(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	out := []byte{'['}
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"type":"text","text":`...), p...), '}')
	}
	return append(out, ']')
}

// joined is several texts as one.
func joined(parts [][]byte) []byte {
	switch len(parts) {
	case 0:
		return []byte(`""`)
	case 1:
		return parts[0]
	}
	var s strings.Builder
	for _, p := range parts {
		s.WriteString(unquote(p))
	}
	return quoted(s.String())
}

// chatCall is a function call of an assistant in OpenAI's form; args is any JSON.
func chatCall(id, name, args []byte) []byte {
	return fmt.Appendf(nil, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, id, name, quoted(string(args)))
}

// chatTool is a function in OpenAI's form; absent parts are empty.
func chatTool(name, description, schema []byte) []byte {
	out := fmt.Appendf(nil, `{"type":"function","function":{"name":%s`, name)
	if len(description) > 0 {
		out = fmt.Appendf(out, `,"description":%s`, description)
	}
	if len(schema) > 0 {
		out = fmt.Appendf(out, `,"parameters":%s`, schema)
	}
	return append(out, "}}"...)
}

// listed is a JSON list.
func listed(es [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(es, []byte{','}), []byte{']'})
}

// argsObject is what a model wrote as arguments, as a JSON object: what is none
// is handed on as a text, so that nothing is lost.
func argsObject(args string) []byte {
	b := []byte(args)
	if json.Valid(b) {
		if b = bytes.TrimSpace(b); isObject(b) {
			return b
		}
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return []byte(`{}`)
	}
	return fmt.Appendf(nil, `{"arguments":%s}`, quoted(args))
}

// sse is one event with a name.
func sse(name string, data any) []byte {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err) // only our own shapes come here
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, b)
}
