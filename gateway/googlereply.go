package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// googleUsage reads the counts of this form; thoughts are billed as output.
func googleUsage(raw []byte) *wireUsage {
	ms, ok := members(raw)
	if !ok {
		return nil
	}
	var sums [2]int64
	var seen [2]bool
	var cached json.Number
	for _, m := range ms {
		at := 0
		switch m.key {
		case "cachedContentTokenCount":
			if isNumber(m.value) {
				cached = json.Number(m.value)
			}
			continue
		case "promptTokenCount", "toolUsePromptTokenCount":
		case "candidatesTokenCount", "thoughtsTokenCount":
			at = 1
		default:
			continue
		}
		if isNull(m.value) {
			continue
		}
		var n json.Number
		number(&n, m.value)
		c, ok := count(n)
		if !ok {
			return &wireUsage{} // one that cannot be spoils the sum
		}
		sums[at], seen[at] = addCapped(sums[at], c), true
	}
	u := &wireUsage{Cached: cached}
	if seen[0] {
		u.Prompt = json.Number(strconv.FormatInt(sums[0], 10))
	}
	if seen[1] {
		u.Completion = json.Number(strconv.FormatInt(sums[1], 10))
	}
	return u
}

func googleFinish(reason string, calls bool) string {
	switch reason {
	case "":
		return ""
	case "MAX_TOKENS":
		return "length"
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE":
		return "content_filter"
	}
	if calls {
		return "tool_calls"
	}
	return "stop"
}

// googleMessage reads the first candidate; from counts the calls that came before.
func googleMessage(ms []member, from int) (out wireMessage, reason string, ok bool) {
	for _, m := range ms {
		if m.key != "candidates" {
			continue
		}
		es, _ := elements(m.value)
		if len(es) == 0 {
			continue
		}
		ok = true
		reason = textOf(es[0], "finishReason")
		parts, _ := elements(orNull(find(find(es[0], "content"), "parts")))
		for _, p := range parts {
			if call := find(p, "functionCall"); call != nil {
				if from+len(out.ToolCalls) < maxToolCalls {
					args := find(call, "args")
					if args == nil {
						args = []byte("{}")
					}
					out.ToolCalls = append(out.ToolCalls, wireToolCall{Index: from + len(out.ToolCalls), ID: textOf(call, "id"), Function: wireFunction{textOf(call, "name"), string(args)}})
				}
				continue
			}
			text := textOf(p, "text")
			if string(find(p, "thought")) == "true" {
				out.Reasoning += text
			} else {
				out.Content += text
			}
		}
	}
	return out, reason, ok
}

func googleWhole(ms []member) (w wireReply, ok bool) {
	m, reason, ok := googleMessage(ms, 0)
	for _, x := range ms {
		if x.key == "usageMetadata" {
			w.Usage = googleUsage(x.value)
		}
	}
	if !ok {
		return w, false
	}
	w.Choices = []wireChoice{{Message: &m, Finish: googleFinish(reason, len(m.ToolCalls) > 0)}}
	return w, true
}

// googleEvent reads an event of a stream: a reply of its own with what is new.
func googleEvent(ms []member, calls *int) (w wireReply, done bool) {
	m, reason, ok := googleMessage(ms, *calls)
	*calls += len(m.ToolCalls)
	for _, x := range ms {
		if x.key == "usageMetadata" {
			w.Usage = googleUsage(x.value)
		}
	}
	if ok {
		w.Choices = []wireChoice{{Delta: &m, Finish: googleFinish(reason, *calls > 0)}}
	}
	return w, false // a stream has no mark of its end beside the reason
}

func googleHead(r Reply, parts []any, reason any) obj {
	c := obj{"content": obj{"parts": parts, "role": "model"}, "index": 0}
	if reason != nil {
		c["finishReason"] = reason
	}
	return obj{"candidates": []any{c}, "modelVersion": r.Model, "responseId": r.ID}
}

func googleReason(m *Message) string {
	switch m.Finish {
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	}
	return "STOP"
}

func googleCalls(r Reply) []any {
	parts := []any{}
	for _, t := range r.Message.ToolCalls {
		call := obj{"name": t.Name, "args": json.RawMessage(argsObject(t.Arguments))}
		if t.ID != "" {
			call["id"] = t.ID
		}
		parts = append(parts, obj{"functionCall": call})
	}
	return parts
}

func googleUsed(r Reply) obj {
	return obj{"promptTokenCount": r.Prompt, "candidatesTokenCount": r.Completion, "totalTokenCount": addCapped(r.Prompt, r.Completion)}
}

// googleReply writes a chat's answer in this form.
func googleReply(r Reply) ([]byte, bool) {
	if r.Message == nil {
		return nil, false
	}
	parts := []any{}
	if r.Message.Content != "" {
		parts = append(parts, obj{"text": r.Message.Content})
	}
	m := googleHead(r, append(parts, googleCalls(r)...), googleReason(r.Message))
	m["usageMetadata"] = googleUsed(r)
	b, err := json.Marshal(m)
	return b, err == nil
}

// googleEventsOut writes a chat's stream in this form: calls come whole, so at its end.
type googleEventsOut struct{ r Reply }

func googleEventsTo(r Reply) translator { return &googleEventsOut{r} }

func googleData(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own shapes come here
	}
	return fmt.Appendf(nil, "data: %s\r\n\r\n", b)
}

func (s *googleEventsOut) chunk(w *wireReply) []byte {
	if len(w.Choices) == 0 || w.Choices[0].Delta == nil || w.Choices[0].Delta.Content == "" {
		return nil
	}
	return googleData(googleHead(s.r, []any{obj{"text": w.Choices[0].Delta.Content}}, nil))
}

func (s *googleEventsOut) end(r Reply) []byte {
	m := googleHead(r, googleCalls(r), googleReason(r.Message))
	m["usageMetadata"] = googleUsed(r)
	return googleData(m)
}

// googleRefusal is Google's error object.
func googleRefusal(r Refusal) (status int, body any) {
	name := map[int]string{
		http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
		http.StatusRequestEntityTooLarge: "INVALID_ARGUMENT", http.StatusUnprocessableEntity: "INVALID_ARGUMENT", http.StatusUnsupportedMediaType: "INVALID_ARGUMENT",
	}[r.Status]
	if name == "" {
		name = "INTERNAL"
	}
	info := obj{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.Code}
	if r.Remaining != nil {
		info["metadata"] = obj{"remaining_micros": strconv.FormatInt(int64(*r.Remaining), 10)}
	}
	return r.Status, obj{"error": obj{"code": r.Status, "message": r.Message, "status": name, "details": []any{info}}}
}
