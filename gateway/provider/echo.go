package provider

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// placeholders are what people give as the key of a server that asks for none.
var placeholders = []string{"none", "empty", "dummy", "null", "test", "local", "token", "ollama", "vllm", "lm-studio", "lmstudio", "not-needed", "no-key", "sk-none", "n/a"}

// Secret is what of a key is to be kept secret: all of it, or nothing, where the key
// is what a server without keys is given ("none", "EMPTY") or of less than four bytes.
// Such a word stands in honest replies.
func Secret(key string) string {
	if len(key) < 4 || slices.Contains(placeholders, strings.ToLower(key)) {
		return ""
	}
	return key
}

// minHalf is the length in bytes from which half of a key is looked for too:
// shorter texts turn up by chance.
const minHalf = 8

// Echoes reports whether a whole reply says the key that asked for it, in full
// or in half, as it is or as JSON writes it with escapes. Such a reply is
// handed to nobody. A placeholder of a key (Secret) is never said.
func Echoes(reply []byte, key string) bool {
	if key = Secret(key); key == "" {
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
