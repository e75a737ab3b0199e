package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Limits of a request's JSON.
const (
	maxDepth  = 64
	maxValues = 1 << 16 // members and elements together: bounds what a parsed body takes
)

// checkJSON refuses what two parsers could read differently, or what costs
// more to read than it is worth: invalid UTF-8, duplicate keys, deep nesting,
// too many values, data after the value. What passes can be taken apart by
// members and elements.
func checkJSON(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("body is not valid UTF-8")
	}
	if !json.Valid(b) {
		var v json.RawMessage
		if err := json.Unmarshal(b, &v); err != nil {
			var se *json.SyntaxError
			if errors.As(err, &se) {
				return fmt.Errorf("body is not valid JSON at byte %d: %w", se.Offset, err)
			}
			return fmt.Errorf("body is not valid JSON: %w", err)
		}
		return errors.New("body is not valid JSON")
	}
	// One entry per open container: the keys seen in it, or nil for an array.
	var stack []map[string]struct{}
	values := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '{', '[':
			if len(stack) == maxDepth {
				return fmt.Errorf("body is nested deeper than %d levels", maxDepth)
			}
			var keys map[string]struct{}
			if b[i] == '{' {
				keys = map[string]struct{}{}
			}
			stack = append(stack, keys)
			values++
			i++
		case '}', ']':
			stack = stack[:len(stack)-1]
			i++
		case ',':
			values++
			i++
		case '"':
			end := stringEnd(b, i)
			// In valid JSON a string before a colon is a key.
			if j := skipSpace(b, end); j < len(b) && b[j] == ':' {
				key := unquote(b[i:end])
				keys := stack[len(stack)-1]
				if _, dup := keys[key]; dup {
					return fmt.Errorf("body has the key %.100q twice in one object", key)
				}
				keys[key] = struct{}{}
			}
			i = end
		default:
			i++
		}
		if values > maxValues {
			return fmt.Errorf("body has more than %d values", maxValues)
		}
	}
	return nil
}

// member is one key of an object with its value as it was written.
type member struct {
	key   string
	value []byte
}

// The functions below take checked JSON only.

// members takes an object apart, in order; false if raw is none.
func members(raw []byte) ([]member, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	var out []member
	i := skipSpace(raw, 1)
	for i < len(raw) && raw[i] != '}' {
		end := stringEnd(raw, i)
		key := unquote(raw[i:end])
		i = skipSpace(raw, end) // the colon
		i = skipSpace(raw, i+1) // the value
		end = valueEnd(raw, i)  //
		out = append(out, member{key, raw[i:end]})
		i = skipSpace(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return out, true
}

// elements takes an array apart; false if raw is none.
func elements(raw []byte) ([][]byte, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	var out [][]byte
	i := skipSpace(raw, 1)
	for i < len(raw) && raw[i] != ']' {
		end := valueEnd(raw, i)
		out = append(out, raw[i:end])
		i = skipSpace(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return out, true
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isNull(raw []byte) bool   { return string(raw) == "null" }
func isBool(raw []byte) bool   { return string(raw) == "true" || string(raw) == "false" }
func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// unquote decodes a JSON string.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return ""
	}
	return s
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return len(b)
		}
		esc := bytes.IndexByte(b[i:i+q], '\\')
		if esc < 0 {
			return i + q + 1
		}
		i += esc + 2 // what the backslash escapes is not an end
	}
	return len(b)
}

// valueEnd returns the index after the value that begins at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // end of the container around a number or word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
