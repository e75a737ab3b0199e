package gateway

import (
	"encoding/json"
	"testing"
)

func FuzzTextCalls(f *testing.F) {
	for _, s := range []string{
		`<tool_call>{"name":"a","parameters":{"q":1}}</tool_call>`, `<tool_call>[{"name":"a","arguments":{}}]`, `<tool_call><tool_call>`, `<tool_call>[[]]</tool_call>`, "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for i, c := range TextCalls(s) {
			if c.Name == "" || c.ID == "" || !gatewayID(c.ID) || i >= maxToolCalls {
				t.Fatalf("call %d: %+v", i, c)
			}
			if c.Arguments != "" && !json.Valid([]byte(c.Arguments)) {
				t.Fatalf("arguments %q", c.Arguments)
			}
		}
	})
}
