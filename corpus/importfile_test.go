package corpus

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Calls of one message that bear the same id, as identical calls of ORO's agents do, are
// answered in order; a call that never closes, and a row that is too long, are named by
// their line where they fall, and so is nothing else.
func TestOddRowsAreNamed(t *testing.T) {
	call := func(id, q string) obj {
		return obj{"id": id, "type": "function", "function": obj{"name": "find_product", "arguments": js(t, obj{"q": q})}}
	}
	said := func(content string, calls ...obj) obj {
		return obj{"role": "assistant", "content": content, "tool_calls": calls}
	}
	answer := func(id, content string) obj { return obj{"role": "tool", "tool_call_id": id, "content": content} }
	rows := []string{
		js(t, obj{"messages": []obj{{"role": "user", "content": words(3)}, said("", call("a", "x"), call("a", "y")), answer("a", "of x"), answer("a", "of y"), said("again", call("a", "z")), answer("a", "of z"), said("done")}}),
		js(t, obj{"messages": []obj{{"role": "user", "content": words(5)}, said("", call("a", "x")), said("nobody answers")}}),
		js(t, obj{"messages": []obj{{"role": "user", "content": words(7)}, said(`<think>hm<tool_call>[{"name":"find_product","parameters":{`), said("done")}}),
		js(t, obj{"messages": []obj{{"role": "user", "content": words(9)}, said(strings.Repeat("<tool_call>", 20_000))}}),
		js(t, obj{"messages": []obj{{"role": "user", "content": words(11)}, said("</tool_call><<<>><tool_call></think>"), said("done")}}),
	}
	out := filepath.Join(t.TempDir(), "out")
	a, err := Import(t.Context(), ImportConfig{Files: []string{importFile(t, "odd.jsonl", rows...)}, Out: out, Licence: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"odd.jsonl, row 2: unanswered_call", "odd.jsonl, row 4: too_long"}; a.Read != 5 || a.Rows != 3 || a.Invalid != 0 || !slices.Equal(a.Dropped, want) {
		t.Errorf("%+v", a)
	}
	got, err := Sample(out, 100)
	if err != nil || len(got) != 3 {
		t.Fatalf("%d rows: %v", len(got), err)
	}
	found := false
	for _, r := range got {
		asked := map[string]string{}
		for _, m := range r.Messages {
			for _, c := range m.ToolCalls {
				if asked[c.ID] != "" {
					t.Errorf("the id %s stands twice", c.ID)
				}
				asked[c.ID] = c.Function.Arguments
			}
			if m.Role == "tool" {
				found = true
				if want := strings.TrimPrefix(m.Content, "of "); !strings.Contains(asked[m.ToolCallID], `"`+want+`"`) {
					t.Errorf("%q answers %s", m.Content, asked[m.ToolCallID])
				}
			}
		}
	}
	if !found {
		t.Error("no row has answers")
	}
}

// A file is read as far as anything in it can be read, wherever it is wrong: each wrong
// line is named by its number, and nothing that is right is lost.
func TestWrongLinesLoseNothing(t *testing.T) {
	step := `{"completion":{"message":{"think":"x"}}}`
	importLine = 1 << 20
	defer func() { importLine = MaxImportLine }()
	long := `{"long":"` + strings.Repeat("x", importLine) + `"}`
	for name, c := range map[string]struct{ text, want string }{
		"lines":                   {"{\"a\":1}\n{\"a\":2}\n", `1 {"a":1}|2 {"a":2}`},
		"blank lines count":       {"\n\n{\"a\":1}\n\nx\n", `3 {"a":1}|5 not JSON`},
		"the first is wrong":      {"{\"a\":\n{\"a\":2}\n{\"a\":3}", `1 not JSON|2 {"a":2}|3 {"a":3}`},
		"the first are words":     {"# rows\nof somebody\n{\"a\":3}\n", `1 not JSON|2 not JSON|3 {"a":3}`},
		"one in the middle":       {"{\"a\":1}\n{\"a\":\n{\"a\":3}\n", `1 {"a":1}|2 not JSON|3 {"a":3}`},
		"the last breaks off":     {"{\"a\":1}\n{\"a\":", `1 {"a":1}|2 not JSON`},
		"a list on one line":      {`[{"a":1},{"a":2}]`, `1 {"a":1}|2 {"a":2}`},
		"a list over lines":       {"[\n{\"a\":1},\n{\"a\":2}\n]\n", `1 {"a":1}|2 {"a":2}`},
		"a list that breaks off":  {"[\n{\"a\":1},\n{\"a\":2},\n{\"a\"", `1 {"a":1}|2 {"a":2}|3 not JSON: unexpected EOF`},
		"a list that never ends":  {"[{\"a\":1}\n", `1 {"a":1}|2 not JSON: EOF`},
		"one value over lines":    {"{\n\"a\":\n1}\n", "1 {\n\"a\":\n1}"},
		"an episode a line":       {"[" + step + "]\nx\n[" + step + "," + step + "]\n", "1 [" + step + "]|2 not JSON|3 [" + step + "," + step + "]"},
		"an episode over lines":   {"[\n" + step + ",\n" + step + "]", "1 [" + step + "," + step + "]"},
		"lists that follow":       {"[{\"a\":1}]\n[{\"a\":2}]\n", `1 {"a":1}|2 {"a":2}`},
		"nothing that is a value": {"<xml>\n<row/>\n", "1 the file begins with no JSON value: invalid character '<' looking for beginning of value"},
		"nothing":                 {"", ""},
		"a long line":             {"{\"a\":1}\n" + long + "\n{\"a\":3}\n", `1 {"a":1}|2 longer than 67108864 bytes|3 {"a":3}`},
		"a long first line":       {long + "\n{\"a\":3}\n", `1 longer than 67108864 bytes|2 {"a":3}`},
	} {
		var got []string
		say := func(n int, raw json.RawMessage, err error) error {
			if err != nil {
				raw = []byte(err.Error())
			}
			got = append(got, fmt.Sprintf("%d %s", n, raw))
			return nil
		}
		err := eachRow(bufio.NewReader(strings.NewReader(c.text)), say)
		if errors.Is(err, errNoValue) {
			if len(got) > 0 {
				t.Errorf("%s: begins with no value after %q", name, got)
			}
			err = eachLineOf(bufio.NewReader(strings.NewReader(c.text)), err, say)
		}
		if all := strings.Join(got, "|"); err != nil || all != c.want {
			t.Errorf("%s: %v, %.200q, want %.200q", name, err, all, c.want)
		}
	}
	// A list on one line may be of any length: its rows are what is bounded.
	row := `{"a":"` + strings.Repeat("x", 1<<15) + `"}`
	n := 0
	err := eachRow(bufio.NewReader(strings.NewReader("["+strings.Repeat(row+",", 69)+row+"]")), func(at int, raw json.RawMessage, err error) error {
		if n++; at != n || len(raw) != len(row) || err != nil {
			t.Errorf("element %d: %d bytes, %v", at, len(raw), err)
		}
		return nil
	})
	if err != nil || n != 70 {
		t.Errorf("%d of 70 elements: %v", n, err)
	}
}
