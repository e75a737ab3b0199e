package provider

import (
	"bytes"
	"encoding/json"
)

// minHalf is the length in bytes from which half of a key is looked for too:
// shorter texts turn up by chance.
const minHalf = 8

// Echoes reports whether a whole reply says the key that asked for it, in full
// or in half, as it is or as JSON writes it with escapes. Such a reply is
// handed to nobody. An empty key is never said.
func Echoes(reply []byte, key string) bool {
	if key == "" {
		return false
	}
	parts := []string{key}
	if half := len(key) / 2; half >= minHalf {
		parts = []string{key[:half], key[len(key)-half:]}
	}
	says := func(b []byte) bool {
		for _, p := range parts {
			if bytes.Contains(b, []byte(p)) {
				return true
			}
		}
		return false
	}
	if says(reply) {
		return true
	}
	var v any
	if !bytes.ContainsRune(reply, '\\') || json.Unmarshal(reply, &v) != nil {
		return false
	}
	return anyText(v, func(s string) bool { return says([]byte(s)) })
}

// anyText reports whether a text of v, name or value, passes ok.
func anyText(v any, ok func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return ok(v)
	case []any:
		for _, x := range v {
			if anyText(x, ok) {
				return true
			}
		}
	case map[string]any:
		for k, x := range v {
			if ok(k) || anyText(x, ok) {
				return true
			}
		}
	}
	return false
}
