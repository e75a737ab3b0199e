package output

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/plain"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

type row struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	N    int64  `json:"n"`
}

var rows = []row{{"s1", "repair", 1<<53 + 1}, {"s2", "<evil>\x1b[31m\u202e\U000e0041", 2}}

func list(items []row) Result {
	return List(items, func(r row) string { return r.ID }, func(h *Human) {
		var cells [][]Cell
		for _, r := range items {
			cells = append(cells, []Cell{Text(r.ID), Styled(iostreams.Red, r.Name), Text("7")})
		}
		h.Table([]Column{{Title: "id"}, {Title: "name", Min: 4}, {Title: "n", Right: true}}, cells)
	})
}

func TestPrint(t *testing.T) {
	tests := []struct {
		name, format, jq string
		tty              int
		want             string
	}{
		{"pipe: json", "", "", 0, `[{"id":"s1","name":"repair","n":9007199254740993},{"id":"s2","name":"<evil>\u001b[31m\u202e\udb40\udc41","n":2}]` + "\n"},
		{"terminal: table", "", "", 80, "ID  NAME    N\ns1  repair  7\ns2  <evil>  7\n"},
		{"table in a pipe", "table", "", 0, "ID  NAME    N\ns1  repair  7\ns2  <evil>  7\n"},
		{"narrow", "", "", 11, "ID  NAME  N\ns1  rep…  7\ns2  <ev…  7\n"},
		{"too narrow for a table", "", "", 9, "id: s1\nname: repair\nn: 7\n\nid: s2\nname: <evil>\nn: 7\n"},
		{"jsonl", "jsonl", "", 80, `{"id":"s1","name":"repair","n":9007199254740993}` + "\n" + `{"id":"s2","name":"<evil>\u001b[31m\u202e\udb40\udc41","n":2}` + "\n"},
		{"id", "id", "", 80, "s1\ns2\n"},
		{"jq", "", ".[].name", 80, "repair\n<evil>\n"},
		{"jq in a pipe is data", "", ".[1].name", 0, "<evil>\x1b[31m\u202e\U000e0041\n"},
		{"jq keeps integers exact", "json", ".[0].n", 0, "9007199254740993\n"},
		{"jq object", "json", "{a: .[0].id}", 0, `{"a":"s1"}` + "\n"},
		{"jq halt", "json", "halt", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, out, _ := iostreams.Test("")
			if tt.tty > 0 {
				s.ForceTTY(tt.tty)
			}
			p, err := New(s, tt.format, tt.jq)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Print(t.Context(), list(rows)); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("got\n%q\nwant\n%q", out.String(), tt.want)
			}
		})
	}
}

func TestPrintEmptyAndSingle(t *testing.T) {
	s, out, _ := iostreams.Test("")
	p, err := New(s, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(t.Context(), list(nil)); err != nil || out.String() != "[]\n" {
		t.Errorf("empty list: %q, %v", out.String(), err)
	}
	p.Format = ID
	if err := p.Print(t.Context(), Result{Value: 1}); err == nil {
		t.Error("-o id of a result without identifiers: no error")
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct{ format, jq string }{{"yaml", ""}, {"", "{"}, {"", ".a | nosuch"}, {"id", ".a"}, {"table", "."}} {
		s, _, _ := iostreams.Test("")
		_, err := New(s, tt.format, tt.jq)
		var e *agon.Error
		if !errors.As(err, &e) || e.Code != "usage" || e.Mend == "" {
			t.Errorf("New(%q, %q): %v", tt.format, tt.jq, err)
		}
	}
	s, _, _ := iostreams.Test("")
	p, err := New(s, "", ".a")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(t.Context(), list(rows)); err == nil {
		t.Error("a jq expression that does not fit: no error")
	}
	if _, err := New(s, "", "env.HOME"); err != nil {
		t.Fatal(err)
	}
}

func TestJQSeesNoEnvironment(t *testing.T) {
	t.Setenv("AGON_LLM_API_KEY", "sk-secret")
	s, out, _ := iostreams.Test("")
	p, err := New(s, "", "env.AGON_LLM_API_KEY, $ENV.AGON_LLM_API_KEY")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(t.Context(), Result{Value: 1}); err != nil || strings.Contains(out.String(), "secret") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestColourAroundCleanText(t *testing.T) {
	s, out, _ := iostreams.Test("")
	s.ForceTTY(80)
	if err := s.SetColour("always"); err != nil {
		t.Fatal(err)
	}
	p, err := New(s, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(t.Context(), list(rows)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\x1b[31m<evil>\x1b[0m") {
		t.Errorf("%q", out.String())
	}
}

func TestHumanCleans(t *testing.T) {
	h := &Human{}
	h.Line("a %s", "b\x1b[2J\nc")
	h.Heading("x\x07")
	h.Text("l1\x1b]0;t\x07\nl2\n\n")
	h.Fields([2]string{"key", "v\r\n"}, [2]string{"longer", ""}, [2]string{"k", "w"})
	want := "a b c\nx\nl1\nl2\nkey  v \nk    w\n"
	if h.b.String() != want {
		t.Errorf("got %q\nwant %q", h.b.String(), want)
	}
}

func FuzzWriteJSON(f *testing.F) {
	f.Add("a\x1b\u009b\u202e\U000e0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		var b strings.Builder
		if err := WriteJSON(&b, map[string]string{"v": s}, false); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(b.String(), "\n")
		if strings.ContainsFunc(line, func(r rune) bool { return plain.Unsafe(r) || r == '\n' }) {
			t.Fatalf("unsafe output %q", line)
		}
		var back, want map[string]string
		if err := json.Unmarshal([]byte(line), &back); err != nil {
			t.Fatal(err)
		}
		ref, err := json.Marshal(map[string]string{"v": s})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(ref, &want); err != nil {
			t.Fatal(err)
		}
		if back["v"] != want["v"] {
			t.Fatalf("changed %q to %q", want["v"], back["v"])
		}
	})
}

// What is spare goes before a table becomes blocks, the last first.
func TestSpareColumns(t *testing.T) {
	cols := func() []Column {
		return []Column{{Title: "id"}, {Title: "miner", Spare: true}, {Title: "score", Right: true}, {Title: "cost", Spare: true}, {Title: "state"}}
	}
	for width, want := range map[int]string{
		80: "ID  MINER   SCORE  COST  STATE\ns1  5Grwva      1  $0    scored\n",
		30: "ID  MINER   SCORE  STATE\ns1  5Grwva      1  scored\n",
		20: "ID  SCORE  STATE\ns1      1  scored\n",
		16: "id: s1\nminer: 5Grwva\nscore: 1\ncost: $0\nstate: scored\n",
	} {
		s, out, _ := iostreams.Test("")
		s.ForceTTY(width)
		p, err := New(s, "", "")
		if err != nil {
			t.Fatal(err)
		}
		err = p.Print(t.Context(), Result{Human: func(h *Human) {
			h.Table(cols(), [][]Cell{{Text("s1"), Text("5Grwva"), Text("1"), Text("$0"), Text("scored")}})
		}})
		if err != nil || out.String() != want {
			t.Errorf("%d columns: %v\n%s\nwant\n%s", width, err, out, want)
		}
	}
}
