package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// canonical encodes v with sorted keys, no blanks and nothing escaped that JSON
// does not ask for.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	if out, rest, err := respell(make([]byte, 0, b.Len()), b.Bytes()); err == nil && string(rest) == "\n" {
		return out, nil
	}
	tree, err := decodeTree(b.Bytes())
	if err != nil {
		return nil, err
	}
	return appendTree(make([]byte, 0, b.Len()), tree)
}

func decodeTree(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	err := d.Decode(&tree)
	return tree, err
}

// appendTree writes what decodeTree returned.
func appendTree(b []byte, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case json.Number:
		return append(b, x...), nil
	case string:
		return appendString(b, x), nil
	case []any:
		b = append(b, '[')
		var err error
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendTree(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		b = append(b, '{')
		var err error
		for i, k := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			if b, err = appendTree(b, x[k]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("encode canonical JSON: a %T", v)
}

const hexDigits = "0123456789abcdef"

// appendString writes s as Python's json with ensure_ascii off and JCS do: only
// what must be escaped is. What is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// appendMessage writes what canonical writes of a message.
func appendMessage(b []byte, m *Message) []byte {
	b = appendString(append(b, `{"content":`...), m.Content)
	if m.Name != "" {
		b = appendString(append(b, `,"name":`...), m.Name)
	}
	if m.Reasoning != "" {
		b = appendString(append(b, `,"reasoning_content":`...), m.Reasoning)
	}
	b = appendString(append(b, `,"role":`...), m.Role)
	if m.ToolCallID != "" {
		b = appendString(append(b, `,"tool_call_id":`...), m.ToolCallID)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i, c := range m.ToolCalls {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(append(b, `{"function":{"arguments":`...), c.Function.Arguments)
			b = appendString(append(b, `,"name":`...), c.Function.Name)
			b = appendString(append(b, `},"id":`...), c.ID)
			b = appendString(append(b, `,"type":`...), c.Type)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendMessages(b []byte, list []Message) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, &list[i])
	}
	return append(b, ']')
}

// chatText is canonicalChat where the tools are canonical already.
func chatText(messages []Message, tools []json.RawMessage) string {
	b := append(appendMessages([]byte(`{"messages":`), messages), `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t...)
	}
	return string(append(b, "]}"...))
}

// canonicalChat is the text whose tokens are counted: sorted keys, no blanks.
// tools may be in any spelling.
func canonicalChat(messages []Message, tools []json.RawMessage) string {
	b := append(appendMessages([]byte(`{"messages":`), messages), `,"tools":`...)
	if tools == nil {
		return string(append(b, "null}"...))
	}
	b = append(b, '[')
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		tree, err := decodeTree(t)
		if err == nil {
			b, err = appendTree(b, tree)
		}
		if err != nil {
			return ""
		}
	}
	return string(append(b, "]}"...))
}
