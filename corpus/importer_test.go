package corpus

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// importFile writes rows as JSON lines and returns the file.
func importFile(t *testing.T, name string, rows ...string) string {
	t.Helper()
	f := filepath.Join(t.TempDir(), name)
	b := []byte(strings.Join(rows, "\n") + "\n")
	if strings.HasSuffix(name, ".gz") {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(b)
		_ = w.Close()
		b = z.Bytes()
	}
	if err := os.WriteFile(f, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func js(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type obj = map[string]any

// nativeRow is a row of a published set: a search, a recommendation.
func nativeRow(query, product string, args any) obj {
	call := func(id, name string, a any) obj {
		return obj{"role": "assistant", "content": "I look for " + product, "tool_calls": []obj{{"id": id, "type": "function", "function": obj{"name": name, "arguments": a}}}}
	}
	return obj{
		"messages": []obj{
			{"role": "system", "content": "shop"},
			{"role": "user", "content": query},
			call("a", "find_product", args),
			{"role": "tool", "tool_call_id": "a", "content": `[{"product_id":"` + product + `"}]`},
			call("b", "recommend_product", obj{"product_ids": product}),
			{"role": "tool", "tool_call_id": "b", "content": "recommended"},
		},
		"tools": []obj{{"type": "function", "name": "find_product", "parameters": obj{}}},
	}
}

// What a corpus holds back does not come into another one by way of an import.
func TestHeldRowsAreNotImported(t *testing.T) {
	held := nativeRow(words(3), "1", obj{"q": "lamp"})
	held["split"] = Held
	odd := nativeRow(words(5), "2", obj{"q": "chair"})
	odd["split"] = 7
	a, err := Import(t.Context(), ImportConfig{Files: []string{importFile(t, "rows.jsonl", js(t, held), js(t, odd))}, Out: filepath.Join(t.TempDir(), "out"), Licence: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Read != 2 || a.Rows != 1 || a.Rejected[RejectHeld] != 1 {
		t.Errorf("%+v", a)
	}
}

// Every form that others write their rows in is read, told as one conversation
// with calls by name, and audited; what is wrong is named and passed over.
func TestImport(t *testing.T) {
	public := "i am looking for a red lamp with a shade of green silk for the table beside my bed under forty pesos"
	rows := []string{
		js(t, nativeRow(public, "1", obj{"q": "lamp"})),  // in the list
		js(t, nativeRow(words(3), "2", `{"q":"chair"}`)), // arguments as text
		js(t, nativeRow(words(3), "2", `{"q":"chair"}`)), // again
		js(t, obj{"instruction": "shop", "input": words(5), "output": "<think>hm</think><tool_call>[{\"name\":\"find_product\",\"parameters\":{\"q\":\"x\"}}]</tool_call>"}),
		js(t, obj{"conversations": []obj{{"from": "system", "value": "s"}, {"from": "human", "value": words(7)}, {"from": "gpt", "value": "Action: find_product\nAction Input: {\"q\": \"y\"}"}, {"from": "observation", "value": "[]"}, {"from": "gpt", "value": "There is none."}}}),
		js(t, []obj{
			{"completion": obj{"message": obj{"think": "look", "tool_call": []obj{{"name": "find_product", "parameters": obj{"q": "z"}, "result": []obj{{"product_id": "9"}}}}}}, "extra_info": obj{"query": words(9)}},
			{"completion": obj{"message": obj{"think": "take", "tool_call": []obj{{"name": "recommend_product", "parameters": obj{"product_ids": "9"}, "result": "ok"}}}}},
		}),
		`{"messages": [`,
		`{"nothing": 1}`,
		`17`,
		string(atif(t, agent(1, "find_product"), agent(1, pick))),
	}
	for _, name := range []string{"rows.jsonl", "rows.jsonl.gz"} {
		p := NewPoison()
		if err := p.Add("public", strings.NewReader(public+"\n")); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		a, err := Import(t.Context(), ImportConfig{Files: []string{importFile(t, name, rows...)}, Poison: p, Out: out, Licence: "CC-BY-4.0"})
		if err != nil {
			t.Fatal(err)
		}
		if a.Read != 7 || a.Invalid != 3 || len(a.Errors) != 3 || !strings.Contains(a.Errors[0], "row 7") {
			t.Errorf("%s: %+v", name, a)
		}
		if a.Rejected[RejectContaminated] != 1 || a.Duplicates != 1 || len(a.Overlap) != 1 || a.Overlap[0].Cut != 1 || a.Rows != 5 {
			t.Errorf("%s: %+v", name, a)
		}
		if want := (map[string]int{FormMessages: 3, FormStep: 1, FormShareGPT: 1, FormDialogue: 1, FormATIF: 1}); fmt.Sprint(a.Forms) != fmt.Sprint(want) {
			t.Errorf("%s: forms %v", name, a.Forms)
		}
		got, err := Sample(out, 100)
		if err != nil || len(got) != 5 {
			t.Fatalf("%s: %d rows: %v", name, len(got), err)
		}
		for _, r := range got {
			calls := 0
			for _, m := range r.Messages {
				calls += len(m.ToolCalls)
				if strings.Contains(m.Content, "Action Input") || strings.Contains(m.Content, "<tool_call>") {
					t.Errorf("%s: a call is text: %q", name, m.Content)
				}
			}
			if calls == 0 || !r.From.Imported || r.From.Licence != "CC-BY-4.0" {
				t.Errorf("%s: %d calls, %+v", name, calls, r.From)
			}
		}
		if v, err := Verify(out, nil); err != nil || len(v.Problems) > 0 {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
	for name, text := range map[string]string{"list": "[" + rows[1] + ",\n" + rows[3] + "]", "pretty": strings.ReplaceAll(rows[1], ",", ",\n")} {
		a, err := Import(t.Context(), ImportConfig{Files: []string{importFile(t, name, text)}})
		if err != nil || a.Rows == 0 || a.Invalid != 0 {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
	if _, err := Import(t.Context(), ImportConfig{Files: []string{importFile(t, "x", rows[1])}, Out: filepath.Join(t.TempDir(), "o")}); err == nil || !strings.Contains(err.Error(), "licence") {
		t.Errorf("without a licence: %v", err)
	}
	if _, err := Import(t.Context(), ImportConfig{Files: []string{"/nonexistent"}}); err == nil {
		t.Error("a file that is not there was read")
	}
}

func FuzzImport(f *testing.F) {
	for _, s := range []string{`{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":[1]}}]}]}`, `[[`, `[{"completion":{}}]`, `{"dialogue":[{"completion":{"message":{"tool_call":[{}]}}}]}`, "{\n\"messages\":[]}", `{"instruction":"","output":"<tool_call>"}`, "\x1f\x8b", "PAR1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Skip()
		}
		a, err := Import(t.Context(), ImportConfig{Files: []string{name}})
		if err == nil && (a.Rows > a.Read || a.Invalid < 0) {
			t.Fatalf("%+v", a)
		}
	})
}

// A voucher's rules are in every voucher's question: one of them in a list cuts
// the row that is it, and no other.
func TestBoilerplateIsNoContamination(t *testing.T) {
	const rules = " the rules of the voucher are one it is a voucher of the platform two it takes a tenth off when the total passes the threshold of the shop"
	s := newSource(20)
	for i := range 20 {
		s.play(i, fmt.Sprint("sub-", i), i, words(i+1)+rules, fmt.Sprint("x", i), 1)
	}
	p := NewPoison()
	if err := p.Add("public", strings.NewReader(words(2)+rules+"\n")); err != nil {
		t.Fatal(err)
	}
	r, m := build(t, s, func(c *Config) { c.Poison = p })
	if r.Rejected[RejectContaminated] != 1 || r.Rows != 19 || m.Counts.Cluster != 19 {
		t.Errorf("%d rows in %d clusters, %v", r.Rows, m.Counts.Cluster, r.Rejected)
	}
}

func TestPassAt(t *testing.T) {
	for _, c := range []struct {
		n, c, k int
		want    float64
	}{{4, 0, 1, 0}, {4, 1, 1, 0.25}, {4, 1, 4, 1}, {4, 2, 2, 1 - 1./6}, {8, 8, 1, 1}} {
		if got := passAt(c.n, c.c, c.k); got < c.want-1e-12 || got > c.want+1e-12 {
			t.Errorf("%d of %d, %d: %v, want %v", c.c, c.n, c.k, got, c.want)
		}
	}
}
