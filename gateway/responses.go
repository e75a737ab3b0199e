package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/agon-arena/agon/gateway/provider"
)

// DialectResponses is OpenAI's newer form: POST /v1/responses.
const DialectResponses = provider.FormResponses

const responsesPath = "/v1/responses"

// responses is the dialect of clients of OpenAI's newer form. It refuses as chat does.
func responses() Dialect {
	return Dialect{Name: DialectResponses, Routes: map[string]Route{
		"POST " + responsesPath: {Path: responsesPath, Parse: parseResponses, Reply: responsesReply, stream: responsesStream},
	}}
}

// responsesForm is how upstreams of this form are asked: they keep nothing.
var responsesForm = form{
	name: provider.FormResponses,
	path: func(string, bool) string { return "/responses" },
	body: func(q *Request, model string, limit int64) []byte {
		b := fmt.Appendf(nil, `{"model":%s,"max_output_tokens":%d,"store":false`, quoted(model), limit)
		if q.stream {
			b = append(b, `,"stream":true`...)
		}
		return append(append(append(b, ','), q.native...), '}')
	},
	fields: func(raw []byte, rules FieldRules) []byte {
		var b builder
		ms, _ := members(raw)
		for _, m := range ms {
			sub, ok := responsesShape[m.key]
			switch {
			case !ok, isNull(m.value), rules.strips(fieldsSampling) && responsesSampling[m.key]:
			case m.key == "include":
				// A model's sealed thoughts come back with the next request. All else that could be included is not offered.
				if bytes.Contains(m.value, []byte(`"`+sealedThoughts+`"`)) {
					b.field(m.key, []byte(`["`+sealedThoughts+`"]`))
				}
			default:
				b.field(m.key, sub.keep(m.value))
			}
		}
		return b.Bytes()
	},
	whole:  responsesWhole,
	events: responsesEvents,
	ping:   `"input":"ping"`,
}

const sealedThoughts = "reasoning.encrypted_content"

var responsesSampling = map[string]bool{"temperature": true, "top_p": true}

var responsesShape = func() map[string]*shape {
	part := &shape{types: []string{"input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"}, keys: map[string]*shape{"type": all, "text": all, "refusal": all}}
	format := &shape{keys: map[string]*shape{"type": all, "name": all, "description": all, "schema": all, "strict": all}}
	return map[string]*shape{
		"input": {types: []string{"", "message", "function_call", "function_call_output", "reasoning"}, keys: map[string]*shape{
			"type": all, "role": all, "content": part, "id": all, "status": all, "call_id": all, "name": all, "arguments": all, "output": part,
			"summary": part, "encrypted_content": all,
		}},
		"instructions": all, "temperature": all, "top_p": all, "parallel_tool_calls": all, "include": all,
		"tools":       {types: []string{"function"}, keys: map[string]*shape{"type": all, "name": all, "description": all, "parameters": all, "strict": all}},
		"tool_choice": {keys: map[string]*shape{"type": all, "name": all}},
		"reasoning":   {keys: map[string]*shape{"effort": all, "summary": all}},
		"text":        {keys: map[string]*shape{"format": format, "verbosity": all}},
	}
}()

// parseResponses reads a request of this form and writes it in that of chat.
func parseResponses(raw []byte, rules FieldRules) (*Request, error) {
	ms, ok := members(raw)
	if !ok {
		return nil, BadField("", "body is not a JSON object")
	}
	var b builder
	var out chatBody
	var input []byte
	for _, m := range ms {
		v, name := m.value, m.key
		if (name == "store" || name == "background") && string(v) == "false" {
			continue
		}
		if isNull(v) {
			continue
		}
		if skip, err := refused(name, rules); err != nil {
			return nil, err
		} else if skip {
			continue
		}
		var err error
		switch name {
		case "model", "temperature", "top_p", "stream", "parallel_tool_calls":
			b.field(name, v)
		case "max_output_tokens":
			if n, e := strconv.ParseInt(string(v), 10, 64); e != nil || n < 1 {
				err = BadField(name, "want a whole number ≥ 1")
			}
			b.field("max_completion_tokens", v)
		case "instructions":
			if !isString(v) {
				err = BadField(name, "want a string")
			}
			out.message("system", key("content"), v)
		case "input":
			input = v
		case "prompt":
			if !rules.strips(fieldsState) {
				err = BadField(name, "not allowed here: %s", whyState)
			}
		case "tools":
			v, err = responsesTools(v, rules)
			if len(v) > 0 {
				b.field(name, v)
			}
		case "tool_choice":
			if isObject(v) {
				if textOf(v, "type") != "function" || !isString(find(v, "name")) {
					return nil, BadField(name, "want none, auto, required or a function")
				}
				v = fmt.Appendf(nil, `{"type":"function","function":{"name":%s}}`, find(v, "name"))
			}
			b.field(name, v)
		case "reasoning":
			if !isObject(v) {
				err = BadField(name, "want an object")
			}
		case "text":
			err = responsesFormat(find(v, "format"), &b)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := responsesInput(input, rules, &out); err != nil {
		return nil, err
	}
	b.field("messages", listed([][]byte{out.Bytes()}))
	return chatAs(&responsesForm, raw, b.Bytes(), rules)
}

func responsesFormat(v []byte, b *builder) error {
	switch typ := textOf(v, "type"); {
	case v == nil:
	case typ == "text" || typ == "json_object":
		b.field("response_format", fmt.Appendf(nil, `{"type":%q}`, typ))
	case typ == "json_schema" && isObject(find(v, "schema")) && isString(find(v, "name")):
		strict := find(v, "strict")
		if !isBool(strict) {
			strict = []byte("false")
		}
		b.field("response_format", fmt.Appendf(nil, `{"type":"json_schema","json_schema":{"name":%s,"schema":%s,"strict":%s}}`, find(v, "name"), find(v, "schema"), strict))
	default:
		return BadField("text.format", "want type text, json_object, or json_schema with a name and a schema")
	}
	return nil
}

// said collects what an assistant said in several items: one message of a chat.
type said struct{ words, calls [][]byte }

func (s *said) flush(out *chatBody) {
	switch {
	case len(s.calls) > 0 && len(s.words) > 0:
		out.message("assistant", key("content"), joined(s.words), key("tool_calls"), listed(s.calls))
	case len(s.calls) > 0:
		out.message("assistant", key("tool_calls"), listed(s.calls))
	case len(s.words) > 0:
		out.message("assistant", key("content"), joined(s.words))
	}
	*s = said{}
}

// responsesInput writes the items of a conversation as messages.
func responsesInput(v []byte, rules FieldRules, out *chatBody) error {
	if isString(v) {
		out.message("user", key("content"), v)
		return nil
	}
	es, ok := elements(v)
	if !ok || len(es) == 0 {
		return BadField("input", "want a string or a list of at least one item")
	}
	var by said
	for i, e := range es {
		at := fmt.Sprintf("input[%d]", i)
		switch typ := textOf(e, "type"); typ {
		case "", "message":
			role := textOf(e, "role")
			parts, err := responsesParts(at+".content", find(e, "content"), rules)
			switch {
			case err != nil:
				return err
			case role == "assistant":
				if len(by.calls) > 0 {
					by.flush(out)
				}
				by.words = append(by.words, parts...)
				continue
			case role != "user" && role != "system" && role != "developer":
				return BadField(at+".role", "want user, assistant, system or developer")
			}
			by.flush(out)
			if len(parts) == 0 {
				parts = [][]byte{[]byte(`""`)}
			}
			out.message(role, key("content"), texts(parts))
		case "function_call":
			id, name, args := find(e, "call_id"), find(e, "name"), find(e, "arguments")
			if !isString(id) || !isString(name) || !isString(args) {
				return BadField(at, "want call_id, name and arguments as strings")
			}
			by.calls = append(by.calls, fmt.Appendf(nil, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, id, name, args))
		case "function_call_output":
			id := find(e, "call_id")
			if !isString(id) {
				return BadField(at+".call_id", "want a string")
			}
			parts, err := responsesParts(at+".output", find(e, "output"), rules)
			if err != nil {
				return err
			}
			by.flush(out)
			out.message("tool", key("tool_call_id"), id, key("content"), joined(parts))
		case "reasoning":
			// An upstream of this form gets it back; to others it means nothing.
		case "item_reference":
			if !rules.strips(fieldsState) {
				return BadField(at+".type", "not allowed here: %s", whyState)
			}
		default:
			if !rules.strips(fieldsProviderTools) {
				return BadField(at+".type", "%.40q is not allowed here: messages and function calls only", typ)
			}
		}
	}
	by.flush(out)
	if out.n == 0 {
		return BadField("input", "nothing is said in it")
	}
	return nil
}

// responsesParts reads a text, or a list of parts of text.
func responsesParts(at string, v []byte, rules FieldRules) ([][]byte, error) {
	if isString(v) {
		return [][]byte{v}, nil
	}
	es, ok := elements(v)
	if !ok {
		return nil, BadField(at, "want a string or a list of text parts")
	}
	var out [][]byte
	for i, e := range es {
		field := "text"
		switch typ := textOf(e, "type"); typ {
		case "input_text", "output_text", "text":
		case "refusal":
			field = "refusal"
		default:
			if rules.strips(fieldsMedia) {
				continue
			}
			return nil, BadField(fmt.Sprintf("%s[%d].type", at, i), "%.40q is not allowed here: text only", typ)
		}
		text := find(e, field)
		if !isString(text) {
			return nil, BadField(fmt.Sprintf("%s[%d].%s", at, i, field), "want a string")
		}
		out = append(out, text)
	}
	return out, nil
}

// responsesTools writes the client's own functions as chat has them.
func responsesTools(v []byte, rules FieldRules) ([]byte, error) {
	es, ok := elements(v)
	if !ok {
		return nil, BadField("tools", "want a list")
	}
	var out [][]byte
	for i, e := range es {
		at := fmt.Sprintf("tools[%d]", i)
		if typ := textOf(e, "type"); typ != "function" {
			if rules.strips(fieldsProviderTools) {
				continue
			}
			return nil, BadField(at+".type", "%.40q is not allowed here: only function", typ)
		}
		name := find(e, "name")
		if !isString(name) {
			return nil, BadField(at+".name", "want a string")
		}
		out = append(out, chatTool(name, find(e, "description"), find(e, "parameters")))
	}
	if len(out) == 0 {
		return nil, nil
	}
	return listed(out), nil
}

// responsesUsage reads the counts of this form.
func responsesUsage(raw []byte) *wireUsage {
	if !isObject(raw) {
		return nil
	}
	var u wireUsage
	number(&u.Prompt, orNull(find(raw, "input_tokens")))
	number(&u.Completion, orNull(find(raw, "output_tokens")))
	if d := find(raw, "input_tokens_details"); isObject(d) {
		number(&u.Cached, orNull(find(d, "cached_tokens")))
	}
	return &u
}

func orNull(raw []byte) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}

// responsesFinish is why a model stopped, as chat says it.
func responsesFinish(resp []byte, calls bool) string {
	switch {
	case textOf(resp, "status") == "incomplete" && textOf(find(resp, "incomplete_details"), "reason") == "content_filter":
		return "content_filter"
	case textOf(resp, "status") == "incomplete":
		return "length"
	case calls:
		return "tool_calls"
	}
	return "stop"
}

// responsesWhole reads a reply of this form.
func responsesWhole(ms []member) (w wireReply, ok bool) {
	resp := map[string][]byte{}
	for _, m := range ms {
		resp[m.key] = m.value
	}
	es, ok := elements(orNull(resp["output"]))
	if status := resp["status"]; !ok || string(status) != `"completed"` && string(status) != `"incomplete"` {
		return w, false
	}
	var out wireMessage
	for _, e := range es {
		switch textOf(e, "type") {
		case "message":
			parts, _ := elements(orNull(find(e, "content")))
			for _, p := range parts {
				out.Content += textOf(p, "text") + textOf(p, "refusal")
			}
		case "reasoning":
			for _, list := range []string{"summary", "content"} {
				parts, _ := elements(orNull(find(e, list)))
				for _, p := range parts {
					out.Reasoning += textOf(p, "text")
				}
			}
		case "function_call":
			if len(out.ToolCalls) < maxToolCalls {
				out.ToolCalls = append(out.ToolCalls, wireToolCall{ID: textOf(e, "call_id"), Function: wireFunction{textOf(e, "name"), textOf(e, "arguments")}})
			}
		}
	}
	head := fmt.Appendf(nil, `{"status":%s,"incomplete_details":%s}`, resp["status"], orNull(resp["incomplete_details"]))
	w.Choices = []wireChoice{{Message: &out, Finish: responsesFinish(head, len(out.ToolCalls) > 0)}}
	w.Usage = responsesUsage(resp["usage"])
	return w, true
}

// responsesEvents reads the events of a stream of this form.
func responsesEvents() func([]member) (wireReply, bool) {
	calls := false
	return func(ms []member) (w wireReply, done bool) {
		ev := map[string][]byte{}
		for _, m := range ms {
			ev[m.key] = m.value
		}
		var d wireMessage
		c := wireChoice{Delta: &d}
		index, _ := strconv.Atoi(string(ev["output_index"])) // what is not a number is the first
		kind, delta := "", ""
		text(&kind, ev["type"])
		text(&delta, ev["delta"])
		switch kind {
		case "response.output_text.delta", "response.refusal.delta":
			d.Content = delta
		case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
			d.Reasoning = delta
		case "response.output_item.added":
			item := ev["item"]
			if textOf(item, "type") != "function_call" {
				return wireReply{}, false
			}
			calls = true
			d.ToolCalls = []wireToolCall{{Index: index, ID: textOf(item, "call_id"), Function: wireFunction{textOf(item, "name"), textOf(item, "arguments")}}}
		case "response.function_call_arguments.delta":
			d.ToolCalls = []wireToolCall{{Index: index, Function: wireFunction{Arguments: delta}}}
		case "response.completed", "response.incomplete":
			w.Usage = responsesUsage(orNull(find(ev["response"], "usage")))
			c.Finish = responsesFinish(orNull(ev["response"]), calls)
			done = true
		default:
			return wireReply{}, false
		}
		w.Choices = []wireChoice{c}
		return w, done
	}
}

// responseHead is a response without its output.
func responseHead(r Reply, status string) obj {
	return obj{
		"id": "resp_" + r.ID, "object": "response", "created_at": r.Created.Unix(), "status": status, "model": r.Model, "output": []any{},
		"error": nil, "incomplete_details": nil, "instructions": nil, "max_output_tokens": nil, "metadata": obj{}, "parallel_tool_calls": true,
		"previous_response_id": nil, "reasoning": obj{"effort": nil, "summary": nil}, "store": false, "temperature": nil,
		"text": obj{"format": obj{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "top_p": nil, "truncation": "disabled", "usage": nil,
	}
}

func responseText(r Reply, status string, parts ...any) obj {
	if parts == nil {
		parts = []any{}
	}
	return obj{"id": "msg_" + r.ID, "type": "message", "status": status, "role": "assistant", "content": parts}
}

func responsePart(text string) obj {
	return obj{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func responseCall(r Reply, n int, status string, t ToolCall) obj {
	return obj{
		"id": fmt.Sprintf("fc_%s_%d", r.ID, n), "type": "function_call", "status": status,
		"call_id": callID(t.ID, r.ID, n), "name": t.Name, "arguments": t.Arguments,
	}
}

// responseOf is the whole response to a message, with its output in this order.
func responseOf(r Reply, output []any) obj {
	resp := responseHead(r, "completed")
	switch r.Message.Finish {
	case "length":
		resp["status"], resp["incomplete_details"] = "incomplete", obj{"reason": "max_output_tokens"}
	case "content_filter":
		resp["status"], resp["incomplete_details"] = "incomplete", obj{"reason": "content_filter"}
	}
	resp["output"] = output
	resp["usage"] = obj{
		"input_tokens": r.Prompt, "input_tokens_details": obj{"cached_tokens": 0}, "output_tokens": r.Completion,
		"output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": addCapped(r.Prompt, r.Completion),
	}
	return resp
}

// responsesReply writes a chat's answer in this form.
func responsesReply(r Reply) ([]byte, bool) {
	if r.Message == nil {
		return nil, false
	}
	output := []any{}
	if r.Message.Content != "" {
		output = append(output, responseText(r, "completed", responsePart(r.Message.Content)))
	}
	for i, t := range r.Message.ToolCalls {
		output = append(output, responseCall(r, i, "completed", t))
	}
	b, err := json.Marshal(responseOf(r, output))
	return b, err == nil
}

// responsesEventsOut writes a chat's stream in this form.
type responsesEventsOut struct {
	r     Reply
	n     int // events
	began bool
	items int // of the output
	text  int // the item of the text, -1: none
	said  bytes.Buffer
	order []*ToolCall // calls in the order in which they came
	calls map[int]int // index of a call: its place in order
	at    []int       // and its item
	args  []*bytes.Buffer
}

func responsesStream(r Reply) translator { return &responsesEventsOut{r: r, text: -1} }

func (s *responsesEventsOut) event(b *bytes.Buffer, kind string, data obj) {
	data["type"], data["sequence_number"] = kind, s.n
	s.n++
	b.Write(sse(kind, data))
}

func (s *responsesEventsOut) start(b *bytes.Buffer) {
	if !s.began {
		s.began = true
		s.event(b, "response.created", obj{"response": responseHead(s.r, "in_progress")})
		s.event(b, "response.in_progress", obj{"response": responseHead(s.r, "in_progress")})
	}
}

func (s *responsesEventsOut) chunk(w *wireReply) []byte {
	var b bytes.Buffer
	s.start(&b)
	if len(w.Choices) == 0 || w.Choices[0].Delta == nil {
		return b.Bytes()
	}
	d := w.Choices[0].Delta
	if d.Content != "" {
		if s.text < 0 {
			s.text = s.items
			s.items++
			s.event(&b, "response.output_item.added", obj{"output_index": s.text, "item": responseText(s.r, "in_progress")})
			s.event(&b, "response.content_part.added", obj{"output_index": s.text, "content_index": 0, "item_id": "msg_" + s.r.ID, "part": responsePart("")})
		}
		s.said.WriteString(d.Content)
		s.event(&b, "response.output_text.delta", obj{"output_index": s.text, "content_index": 0, "item_id": "msg_" + s.r.ID, "delta": d.Content, "logprobs": []any{}})
	}
	for _, t := range d.ToolCalls {
		i, known := s.calls[t.Index]
		if !known {
			if len(s.order) == maxToolCalls {
				continue
			}
			if s.calls == nil {
				s.calls = map[int]int{}
			}
			i = len(s.order)
			s.calls[t.Index] = i
			c := &ToolCall{ID: callID(t.ID, s.r.ID, i), Name: t.Function.Name}
			s.order, s.at, s.args = append(s.order, c), append(s.at, s.items), append(s.args, &bytes.Buffer{})
			s.items++
			s.event(&b, "response.output_item.added", obj{"output_index": s.at[i], "item": responseCall(s.r, i, "in_progress", *c)})
		}
		if t.Function.Arguments != "" {
			s.args[i].WriteString(t.Function.Arguments)
			s.event(&b, "response.function_call_arguments.delta", obj{"output_index": s.at[i], "item_id": fmt.Sprintf("fc_%s_%d", s.r.ID, i), "delta": t.Function.Arguments})
		}
	}
	return b.Bytes()
}

func (s *responsesEventsOut) end(r Reply) []byte {
	var b bytes.Buffer
	s.start(&b)
	output := make([]any, s.items)
	if s.text >= 0 {
		item := responseText(r, "completed", responsePart(s.said.String()))
		output[s.text] = item
		at := obj{"output_index": s.text, "content_index": 0, "item_id": "msg_" + r.ID, "text": s.said.String(), "logprobs": []any{}}
		s.event(&b, "response.output_text.done", at)
		s.event(&b, "response.content_part.done", obj{"output_index": s.text, "content_index": 0, "item_id": "msg_" + r.ID, "part": responsePart(s.said.String())})
		s.event(&b, "response.output_item.done", obj{"output_index": s.text, "item": item})
	}
	for i, c := range s.order {
		c.Arguments = s.args[i].String()
		item := responseCall(r, i, "completed", *c)
		output[s.at[i]] = item
		s.event(&b, "response.function_call_arguments.done", obj{"output_index": s.at[i], "item_id": item["id"], "name": c.Name, "arguments": c.Arguments})
		s.event(&b, "response.output_item.done", obj{"output_index": s.at[i], "item": item})
	}
	resp := responseOf(r, output)
	kind := "response.completed"
	if resp["status"] == "incomplete" {
		kind = "response.incomplete"
	}
	s.event(&b, kind, obj{"response": resp})
	return b.Bytes()
}
