package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/agon-arena/agon"
)

func messagesStop(m *Message) string {
	if s := toMessagesStop[m.Finish]; s != "" {
		return s
	}
	if len(m.ToolCalls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// messagesUsage sums what the provider counts apart, where any of it is there.
func messagesUsage(u *wireUsage, raw []byte) *wireUsage {
	ms, ok := members(raw)
	if !ok {
		return u
	}
	if u == nil {
		u = &wireUsage{}
	}
	prompt, seen := int64(0), false
	for _, m := range ms {
		switch m.key {
		case "output_tokens":
			u.Completion = ""
			number(&u.Completion, m.value)
		case "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens":
			if isNull(m.value) {
				continue
			}
			var n json.Number
			number(&n, m.value)
			c, ok := count(n)
			if !ok {
				u.Prompt = "" // one that cannot be spoils the sum
				return u
			}
			if m.key == "cache_read_input_tokens" {
				u.Cached = n
			}
			seen = seen || m.key == "input_tokens"
			prompt = addCapped(prompt, c)
		}
	}
	if seen && prompt > 0 {
		u.Prompt = json.Number(strconv.FormatInt(prompt, 10))
	}
	return u
}

// messagesWhole reads a reply of this form.
func messagesWhole(ms []member) (w wireReply, ok bool) {
	var out wireMessage
	c := wireChoice{Message: &out}
	for _, m := range ms {
		switch m.key {
		case "content":
			es, is := elements(m.value)
			ok = is
			for _, e := range es {
				messagesBlock(e, &out)
			}
		case "stop_reason":
			if isString(m.value) {
				c.Finish = fromMessagesStop[unquote(m.value)]
			}
		case "usage":
			w.Usage = messagesUsage(nil, m.value)
		}
	}
	w.Choices = []wireChoice{c}
	return w, ok
}

func messagesBlock(e []byte, out *wireMessage) {
	switch textOf(e, "type") {
	case "text":
		out.Content += textOf(e, "text")
	case "thinking":
		out.Reasoning += textOf(e, "thinking")
	case "tool_use":
		if len(out.ToolCalls) < maxToolCalls {
			out.ToolCalls = append(out.ToolCalls, wireToolCall{ID: textOf(e, "id"), Function: wireFunction{textOf(e, "name"), string(find(e, "input"))}})
		}
	}
}

// messagesEvents reads the events of a stream of this form.
func messagesEvents() func([]member) (wireReply, bool) {
	var used *wireUsage
	return func(ms []member) (w wireReply, done bool) {
		ev := map[string][]byte{}
		for _, m := range ms {
			ev[m.key] = m.value
		}
		var d wireMessage
		c := wireChoice{Delta: &d}
		index, _ := strconv.Atoi(string(ev["index"])) // what is not a number is the first
		kind := ""
		text(&kind, ev["type"])
		switch kind {
		case "message_start":
			used = messagesUsage(used, find(ev["message"], "usage"))
			return wireReply{}, false
		case "content_block_start":
			block := ev["content_block"]
			if textOf(block, "type") == "tool_use" {
				d.ToolCalls = []wireToolCall{{Index: index, ID: textOf(block, "id"), Function: wireFunction{Name: textOf(block, "name")}}}
			} else {
				messagesBlock(block, &d)
			}
		case "content_block_delta":
			delta := ev["delta"]
			switch textOf(delta, "type") {
			case "text_delta":
				d.Content = textOf(delta, "text")
			case "thinking_delta":
				d.Reasoning = textOf(delta, "thinking")
			case "input_json_delta":
				d.ToolCalls = []wireToolCall{{Index: index, Function: wireFunction{Arguments: textOf(delta, "partial_json")}}}
			}
		case "message_delta":
			used = messagesUsage(used, ev["usage"])
			c.Finish = fromMessagesStop[textOf(ev["delta"], "stop_reason")]
			w.Usage = used
		case "message_stop":
			return wireReply{}, true
		default:
			return wireReply{}, false
		}
		w.Choices = []wireChoice{c}
		return w, false
	}
}

type obj = map[string]any

// messagesReply writes a chat's answer in this form.
func messagesReply(r Reply) ([]byte, bool) {
	if r.Message == nil {
		return nil, false
	}
	content := []any{}
	if r.Message.Content != "" {
		content = append(content, obj{"type": "text", "text": r.Message.Content})
	}
	for i, t := range r.Message.ToolCalls {
		content = append(content, obj{"type": "tool_use", "id": callID(t.ID, r.ID, i), "name": t.Name, "input": json.RawMessage(argsObject(t.Arguments))})
	}
	m := messageHead(r)
	m["content"], m["stop_reason"] = content, messagesStop(r.Message)
	m["usage"] = obj{"input_tokens": r.Prompt, "output_tokens": r.Completion}
	b, err := json.Marshal(m)
	return b, err == nil
}

// callID is the model's name of a call, or one of ours where it gave none.
func callID(id, reply string, n int) string {
	if id != "" {
		return id
	}
	return fmt.Sprintf("call_%s_%d", reply, n)
}

func messageHead(r Reply) obj {
	return obj{
		"id": "msg_" + r.ID, "type": "message", "role": "assistant", "model": r.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": obj{"input_tokens": 0, "output_tokens": 0},
	}
}

// messagesEventsOut writes a chat's stream in this form. Blocks of calls stay open
// to the end: a model may go on with any of them.
type messagesEventsOut struct {
	r     Reply
	began bool
	text  int         // the block of text that is open, -1: none
	n     int         // blocks
	calls map[int]int // index of a call: its block
	order []int       // blocks of calls
}

func messagesStream(r Reply) translator { return &messagesEventsOut{r: r, text: -1} }

func (s *messagesEventsOut) start(b *bytes.Buffer) {
	if !s.began {
		s.began = true
		b.Write(sse("message_start", obj{"type": "message_start", "message": messageHead(s.r)}))
	}
}

func (s *messagesEventsOut) begin(b *bytes.Buffer, block obj) int {
	s.stop(b)
	b.Write(sse("content_block_start", obj{"type": "content_block_start", "index": s.n, "content_block": block}))
	s.n++
	return s.n - 1
}

// stop ends the block of text that is open.
func (s *messagesEventsOut) stop(b *bytes.Buffer) {
	if s.text >= 0 {
		b.Write(sse("content_block_stop", obj{"type": "content_block_stop", "index": s.text}))
		s.text = -1
	}
}

func (s *messagesEventsOut) chunk(w *wireReply) []byte {
	var b bytes.Buffer
	s.start(&b)
	if len(w.Choices) == 0 || w.Choices[0].Delta == nil {
		return b.Bytes()
	}
	delta := func(at int, d obj) {
		b.Write(sse("content_block_delta", obj{"type": "content_block_delta", "index": at, "delta": d}))
	}
	d := w.Choices[0].Delta
	if d.Content != "" {
		if s.text < 0 {
			s.text = s.begin(&b, obj{"type": "text", "text": ""})
		}
		delta(s.text, obj{"type": "text_delta", "text": d.Content})
	}
	for _, t := range d.ToolCalls {
		at, known := s.calls[t.Index]
		if !known {
			if len(s.calls) == maxToolCalls {
				continue
			}
			if s.calls == nil {
				s.calls = map[int]int{}
			}
			at = s.begin(&b, obj{"type": "tool_use", "id": callID(t.ID, s.r.ID, t.Index), "name": t.Function.Name, "input": obj{}})
			s.calls[t.Index] = at
			s.order = append(s.order, at)
		}
		if t.Function.Arguments != "" {
			delta(at, obj{"type": "input_json_delta", "partial_json": t.Function.Arguments})
		}
	}
	return b.Bytes()
}

func (s *messagesEventsOut) end(r Reply) []byte {
	var b bytes.Buffer
	s.start(&b)
	s.stop(&b)
	for _, at := range s.order {
		b.Write(sse("content_block_stop", obj{"type": "content_block_stop", "index": at}))
	}
	b.Write(sse("message_delta", obj{
		"type": "message_delta", "delta": obj{"stop_reason": messagesStop(r.Message), "stop_sequence": nil},
		"usage": obj{"input_tokens": r.Prompt, "output_tokens": r.Completion},
	}))
	b.Write(sse("message_stop", obj{"type": "message_stop"}))
	return b.Bytes()
}

// messagesRefusal is Anthropic's error object.
func messagesRefusal(r Refusal) (status int, body any) {
	kind := "api_error"
	switch r.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType:
		kind = "invalid_request_error"
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusForbidden:
		kind = "permission_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case http.StatusServiceUnavailable:
		kind = "overloaded_error"
	}
	type inner struct {
		Type      string       `json:"type"`
		Message   string       `json:"message"`
		Code      string       `json:"code"`
		Remaining *agon.Micros `json:"remaining_micros,omitempty"`
	}
	return r.Status, obj{"type": "error", "error": inner{kind, r.Message, r.Code, r.Remaining}}
}
