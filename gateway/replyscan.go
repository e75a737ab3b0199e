package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// read takes apart what the gateway reads of a reply; false if b is not one
// JSON object. It gives what encoding/json would, member by member (names in
// any case, members of wrong types skipped), at a third of the cost: a stream
// has an object in each of its events. Of a key that comes twice the last counts.
func read(b []byte) (w wireReply, ok bool) {
	if i := skipSpace(b, 0); i == len(b) || b[i] != '{' || !json.Valid(b) {
		return w, false
	}
	ms, _ := members(b)
	for _, m := range ms {
		switch {
		case keyIs(m, "choices"):
			w.Choices = list(m.value, choiceOf)
		case keyIs(m, "usage"):
			w.Usage = object(m.value, usageOf)
		case keyIs(m, "data"):
			w.Data = list(m.value, vectorOf)
		case keyIs(m, "prompt_token_ids"):
			w.Tokens = ids(m.value)
		}
	}
	return w, true
}

func keyIs(m member, name string) bool { return m.key == name || strings.EqualFold(m.key, name) }

// list reads an array; what is none is nothing, and so is an element of a wrong type.
func list[T any](raw []byte, of func([]member) T) []T {
	es, ok := elements(raw)
	if !ok {
		return nil
	}
	out := make([]T, len(es))
	for i, e := range es {
		if ms, ok := members(e); ok {
			out[i] = of(ms)
		}
	}
	return out
}

// object reads an object that may be missing.
func object[T any](raw []byte, of func([]member) T) *T {
	if isNull(raw) {
		return nil
	}
	var v T
	if ms, ok := members(raw); ok {
		v = of(ms)
	}
	return &v
}

func choiceOf(ms []member) (c wireChoice) {
	for _, m := range ms {
		switch {
		case keyIs(m, "message"):
			c.Message = object(m.value, messageIn)
		case keyIs(m, "delta"):
			c.Delta = object(m.value, messageIn)
		case keyIs(m, "finish_reason"):
			text(&c.Finish, m.value)
		case keyIs(m, "token_ids"):
			c.IDs = ids(m.value)
		case keyIs(m, "logprobs"):
			c.Probs = probs(m.value)
		}
	}
	return c
}

// ids reads a list of whole numbers; one that is none makes it nothing.
func ids(raw []byte) []int64 {
	es, ok := elements(raw)
	if !ok || len(es) > maxTokens {
		return nil
	}
	out := make([]int64, len(es))
	for i, e := range es {
		n, err := strconv.ParseInt(string(e), 10, 64)
		if err != nil {
			return nil
		}
		out[i] = n
	}
	return out
}

// probs reads the log-probability of each token: {"content": [{"logprob": n}]}.
func probs(raw []byte) []float64 {
	es, ok := elements(orNull(find(raw, "content")))
	if !ok || len(es) > maxTokens {
		return nil
	}
	out := make([]float64, len(es))
	for i, e := range es {
		v := find(e, "logprob")
		if !isNumber(v) {
			return nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return nil
		}
		out[i] = f
	}
	return out
}

func messageIn(ms []member) (w wireMessage) {
	for _, m := range ms {
		switch {
		case keyIs(m, "content"):
			text(&w.Content, m.value)
		case keyIs(m, "reasoning_content"):
			text(&w.Reasoning, m.value)
		case keyIs(m, "tool_calls"):
			w.ToolCalls = list(m.value, toolCallIn)
		}
	}
	return w
}

func toolCallIn(ms []member) (c wireToolCall) {
	for _, m := range ms {
		switch {
		case keyIs(m, "index"):
			if n, err := strconv.Atoi(string(m.value)); err == nil {
				c.Index = n
			}
		case keyIs(m, "id"):
			text(&c.ID, m.value)
		case keyIs(m, "function"):
			fs, _ := members(m.value)
			for _, f := range fs {
				switch {
				case keyIs(f, "name"):
					text(&c.Function.Name, f.value)
				case keyIs(f, "arguments"):
					text(&c.Function.Arguments, f.value)
				}
			}
		}
	}
	return c
}

func usageOf(ms []member) (u wireUsage) {
	for _, m := range ms {
		switch {
		case keyIs(m, "prompt_tokens"):
			number(&u.Prompt, m.value)
		case keyIs(m, "completion_tokens"):
			number(&u.Completion, m.value)
		case keyIs(m, "prompt_tokens_details"):
			ds, _ := members(m.value)
			for _, d := range ds {
				if keyIs(d, "cached_tokens") {
					number(&u.Cached, d.value)
				}
			}
		}
	}
	return u
}

func vectorOf(ms []member) (v wireVector) {
	for _, m := range ms {
		if keyIs(m, "embedding") {
			v.Embedding = bytes.Clone(m.value)
		}
	}
	return v
}

// text reads a string. What a provider writes may be no UTF-8.
func text(s *string, raw []byte) {
	if !isString(raw) {
		return
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		*s = string(raw[1 : len(raw)-1])
		return
	}
	_ = json.Unmarshal(raw, s) // a string of checked JSON
}

// number reads a count; some servers quote it.
func number(n *json.Number, raw []byte) {
	if isNumber(raw) {
		*n = json.Number(raw)
		return
	}
	_ = json.Unmarshal(raw, n) // what is none stays empty
}
