package packfile

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
)

// golden reads rows of the vectors as raw JSON: numbers keep their spelling.
func golden(t *testing.T, key string) []map[string]json.RawMessage {
	t.Helper()
	b, err := os.ReadFile("testdata/trajectoryrl.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(all[key], &rows); err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", key, len(rows), err)
	}
	return rows
}

// compare runs a rule on rows and compares the fields that it answers.
func compare(t *testing.T, rule string, rows []map[string]json.RawMessage, in []string) {
	t.Helper()
	reg := calc.New(Rules()...)
	for i, row := range rows {
		arg := map[string]json.RawMessage{}
		for _, f := range in {
			arg[f] = row[f]
		}
		line, err := json.Marshal(arg)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if bad, err := reg.Run(rule, bytes.NewReader(line), &out); err != nil || bad > 0 {
			t.Errorf("%s row %d: %v %s", rule, i, err, out.String())
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		n := 0
		for f, v := range got {
			raw, ok := row[f]
			if !ok {
				t.Errorf("%s row %d: the vectors have no %s", rule, i, f)
				continue
			}
			n++
			var want any
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(v, want) {
				t.Errorf("%s row %d: %s is %v, want %v", rule, i, f, v, want)
			}
		}
		if n == 0 {
			t.Errorf("%s row %d: nothing was compared", rule, i)
		}
	}
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		key string
		in  []string
	}{
		{"pack_hash", []string{"input"}},
		{"epoch_context", []string{"epoch"}},
		{"challenge_seed", []string{"id"}},
		{"eval_window", []string{"block"}},
		{"commitment_parse", []string{"raw"}},
		{"consensus_parse", []string{"raw"}},
		{"dual_address", []string{"raw"}},
		{"split_half", []string{"qualities"}},
		{"codebase_fix_quality", []string{"evaluation", "test_results"}},
		{"s1_world", []string{"epoch_seed", "salt"}},
	} {
		t.Run(c.key, func(t *testing.T) { compare(t, "trajectoryrl."+c.key, golden(t, c.key), c.in) })
	}
	t.Run("opp_validate", func(t *testing.T) {
		rows := golden(t, "opp_validate")
		for _, row := range rows {
			var short struct {
				N *int `json:"AGENTS.md_x_count"`
			}
			if err := json.Unmarshal(row["pack"], &short); err == nil && short.N != nil {
				row["pack"] = json.RawMessage(strings.Replace(minimal, `"x"`, `"`+strings.Repeat("x", *short.N)+`"`, 1))
			}
		}
		compare(t, "trajectoryrl.opp_validate", rows, []string{"pack"})
	})
}

const minimal = `{"schema_version":1,"files":{"AGENTS.md":"x"},"tool_policy":{},"metadata":{"pack_name":"n","pack_version":"1.0.0","target_suite":"t"}}`

func TestBuild(t *testing.T) {
	for name, c := range map[string]struct {
		p    *Pack
		size int
		hash string
	}{
		"default": {Build(BuildOptions{Policy: "# Policy\n"}), 268, "0b176cfaa3f82553162b63f292f36c881911bcb5471f9601a93879a05e2d5107"},
		"s1":      {BuildS1("# Skill\nBe careful.\n"), 70, "e4464376f7452cd69be708f425fc7ba467cda980145c4e43ac4c8e04b035f7d9"},
	} {
		if len(c.p.Canonical) != c.size || c.p.Hash != c.hash {
			t.Errorf("%s: %d bytes, hash %s", name, len(c.p.Canonical), c.p.Hash)
		}
	}
	if is := Build(BuildOptions{Policy: "x"}).Issues(SchemaOPP); len(is) != 0 {
		t.Error(is)
	}
	if is := BuildS1("x").Issues(SchemaS1); len(is) != 0 {
		t.Error(is)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{minimal, `{"a":1e400,"b":[-0.0,"\ud800"]}`, "[[[[", `{"a":1,"a":2}`, "\ufeff{}", `"\u12"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Read(b)
		if err != nil {
			return
		}
		p.Issues(SchemaOPP)
		p.Issues(SchemaS1)
		again, err := ParseLimit(p.Canonical)
		if err != nil || New(again).Hash != p.Hash {
			t.Errorf("%q: the canonical form %q has another hash (%v)", b, p.Canonical, err)
		}
	})
}

// What stands on the ledger is anybody's: what parses is written the same again.
func FuzzCommitment(f *testing.F) {
	hash := strings.Repeat("ab", 32)
	for _, s := range []string{hash + "|https://a.example/p", "consensus:1|7|2|bafy;https://a.example/x", "consensus:1|2|x", "consensus:9999999999999999999|1|1|a", "|", "consensus:", hash + "|http://a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := ParseCommitment(s); ok {
			if text, err := c.Write(); err == nil {
				if again, ok := ParseCommitment(text); !ok || again != c {
					t.Errorf("%q: %+v, then %+v", s, c, again)
				}
			}
		}
		if p, ok := ParsePointer(s); ok {
			if text, err := p.Write(); err == nil {
				again, ok := ParsePointer(text)
				if cid, _ := DualAddress(p.Address); !ok || again.Window != p.Window || again.Address != p.Address && again.Address != cid {
					t.Errorf("%q: %+v, then %+v", s, p, again)
				}
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	p := Build(BuildOptions{Policy: strings.Repeat("Ask before you send. \u00e9\n", 1100)})
	raw := p.Value.Plain()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		q, err := Read(raw)
		if err != nil || len(q.Issues(SchemaOPP)) > 0 {
			b.Fatal(err, q.Issues(SchemaOPP))
		}
	}
}
