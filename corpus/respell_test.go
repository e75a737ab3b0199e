package corpus

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// The quick way writes what the way over a tree writes, byte for byte: of values with
// every kind of escape, of raw JSON in any spelling, with keys that repeat and in any
// order.
func TestRespell(t *testing.T) {
	texts := []string{
		"", "plain", "a \"quoted\" one", "back\\slash", "\\\"", "\\", "line\nbreak\ttab\rreturn\b\f", "\x00\x01\x1f\x7f", "<a href='x'>&</a>", "ключ 键 🔑", "\u2028\u2029", "\ufffd", "\xff\xfe broken", `{"a":1}`, strings.Repeat(`\"`, 40),
	}
	raws := []string{
		`{"b":1,"a":2,"a":3}`, `{"a":{"z":[],"y":{}},"\u0061":5}`, `"\/\u00e9\u0041\ud83d\udd11\u2028"`, `[ 1e5 , -0.50, true,null , "x" ]`, `{"\n":1,"\t":2,"":3}`, `"\ud800"`, `1234567890123456789012345`, "\"\xff\"",
	}
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(10); {
		case n < 2:
			return texts[r.IntN(len(texts))]
		case n == 2:
			return json.RawMessage(raws[r.IntN(len(raws))])
		case n == 3:
			return []any{nil, true, false, 0, -1.5, 1e21, 12345678901}[r.IntN(7)]
		case n == 4: // a struct, whose keys are in no order
			return struct {
				Z any               `json:"z"`
				A string            `json:"a"`
				M []json.RawMessage `json:"m,omitempty"`
			}{texts[r.IntN(len(texts))], texts[r.IntN(len(texts))], []json.RawMessage{json.RawMessage(raws[r.IntN(len(raws))])}}
		case depth > 2:
			return "deep"
		case n < 7:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, value(depth+1))
			}
			return list
		}
		m := map[string]any{}
		for range r.IntN(9) {
			m[texts[r.IntN(len(texts))]+string(rune('a'+r.IntN(26)))] = value(depth + 1)
		}
		return m
	}
	quick := 0
	for i := range 2000 {
		v := value(0)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			continue // raw JSON that the encoder refuses
		}
		tree, err := decodeTree(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		want, err := appendTree(nil, tree)
		if err != nil {
			t.Fatal(err)
		}
		got, rest, err := respell(nil, b.Bytes())
		if err == nil {
			quick++
			if string(rest) != "\n" || !bytes.Equal(got, want) {
				t.Fatalf("value %d: %s\ngot  %s\nwant %s", i, b.Bytes(), got, want)
			}
		}
		if all, err := canonical(v); err != nil || !bytes.Equal(all, want) {
			t.Fatalf("value %d: %v %s", i, err, all)
		}
	}
	if quick < 1200 {
		t.Errorf("%d of 2000 values went the quick way", quick)
	}
	for _, bad := range []string{"", "{", "[", `"`, `"\`, `{"a"`, `{"a":`, `{"a":1`, "[1", "[1 2]", `{"a" :1}`, `{a:1}`} {
		if out, rest, err := respell(nil, []byte(bad)); err == nil && len(rest) == 0 && json.Valid(out) {
			t.Errorf("%q became %s", bad, out)
		}
	}
}
