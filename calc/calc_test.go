package calc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

type addIn struct {
	A uint64  `json:"a"`
	B *uint64 `json:"b"`
	C string  `json:"c,omitempty"`
}

type addOut struct {
	Sum uint64 `json:"sum"`
	C   string `json:"c,omitempty"`
}

type couplesIn struct {
	List    [][2]uint64 `json:"list"`
	Numbers []float64   `json:"numbers,omitempty"`
	Bytes   []byte      `json:"bytes,omitempty"`
}

func testRegistry() *Registry {
	return New(
		Func("test.add", "a, b -> sum", func(in addIn) (addOut, error) {
			if in.C == "fail" {
				return addOut{}, errors.New("c fails")
			}
			out := addOut{Sum: in.A, C: in.C}
			if in.B != nil {
				out.Sum += *in.B
			}
			return out, nil
		}),
		Func("test.couples", "", func(in couplesIn) (out addOut, err error) {
			for _, c := range in.List {
				out.Sum += c[0] + c[1]
			}
			return out, nil
		}),
		Func("test.any", "", func(in map[string]any) (map[string]any, error) { return in, nil }),
	)
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		rule, in, out string
		bad           int
	}{
		"two lines":                           {"test.add", `{"a":1,"b":2}` + "\n" + `{"a":3,"b":4}` + "\n", `{"sum":3}` + "\n" + `{"sum":7}` + "\n", 0},
		"no last newline":                     {"test.add", `{"a":1,"b":2}`, `{"sum":3}` + "\n", 0},
		"crlf":                                {"test.add", "{\"a\":1}\r\n{\"a\":2}\r\n", `{"sum":1}` + "\n" + `{"sum":2}` + "\n", 0},
		"nothing":                             {"test.add", "", "", 0},
		"blank lines":                         {"test.add", "\n \n{\"a\":1}\n\n", `{"sum":1}` + "\n", 0},
		"null is not a value":                 {"test.add", `{"a":1,"b":null}`, `{"sum":1}` + "\n", 0},
		"above 2^53":                          {"test.add", `{"a":9007199254740993,"b":0}`, `{"sum":9007199254740993}` + "\n", 0},
		"whole u64":                           {"test.add", `{"a":18446744073709551615}`, `{"sum":18446744073709551615}` + "\n", 0},
		"any above 2^53":                      {"test.any", `{"x":9007199254740993}`, `{"x":9007199254740993}` + "\n", 0},
		"no escaping":                         {"test.add", `{"a":1,"c":"<é>"}`, `{"sum":1,"c":"<é>"}` + "\n", 0},
		"bad between good":                    {"test.add", "{\"a\":1}\nnope\n{\"a\":2}\n", `{"sum":1}` + "\n" + `{"error":"input is not JSON"}` + "\n" + `{"sum":2}` + "\n", 1},
		"unknown field":                       {"test.add", `{"a":1,"d":2}`, `{"error":"input field \"d\" is unknown: want a, b, c"}` + "\n", 1},
		"other case":                          {"test.add", `{"A":1}`, `{"error":"input field \"A\" is unknown: want a, b, c"}` + "\n", 1},
		"given twice":                         {"test.add", `{"a":1,"a":2}`, `{"error":"input field \"a\" is given twice"}` + "\n", 1},
		"missing":                             {"test.add", `{"b":1}`, `{"error":"input field \"a\" is missing"}` + "\n", 1},
		"null for a number":                   {"test.add", `{"a":null}`, `{"error":"input field \"a\" is null"}` + "\n", 1},
		"a couple":                            {"test.couples", `{"list":[[1,2],[3,4]]}`, `{"sum":10}` + "\n", 0},
		"half a couple":                       {"test.couples", `{"list":[[1,2],[3]]}`, `{"error":"input field \"list\", item 1: want a list of 2 values"}` + "\n", 1},
		"three of a couple":                   {"test.couples", `{"list":[[1,2,3]]}`, `{"error":"input field \"list\", item 0: want a list of 2 values"}` + "\n", 1},
		"null in a couple":                    {"test.couples", `{"list":[[1,null]]}`, `{"error":"input field \"list\", item 0: want a list of 2 values"}` + "\n", 1},
		"null for a couple":                   {"test.couples", `{"list":[null]}`, `{"error":"input field \"list\", item 0: want a list of 2 values"}` + "\n", 1},
		"null for a number of a list":         {"test.couples", `{"list":[],"numbers":[3.2,null]}`, `{"error":"input field \"numbers\", item 1 is null: want a number"}` + "\n", 1},
		"a list of numbers and bytes":         {"test.couples", `{"list":[[1,2]],"numbers":[3.2,4],"bytes":"AAE="}`, `{"sum":3}` + "\n", 0},
		"null for a list that may be missing": {"test.couples", `{"list":[[1,2]],"numbers":null}`, `{"sum":3}` + "\n", 0},
		"no list of couples":                  {"test.couples", `{"list":4}`, `{"error":"input field \"list\": want a list"}` + "\n", 1},
		"list":                                {"test.add", `[1]`, `{"error":"input is not a JSON object"}` + "\n", 1},
		"null":                                {"test.any", `null`, `{"error":"input is not a JSON object"}` + "\n", 1},
		"two objects":                         {"test.add", `{"a":1}{"a":2}`, `{"error":"input has text after the object"}` + "\n", 1},
		"half an object":                      {"test.add", `{"a":1`, `{"error":"input is not JSON"}` + "\n", 1},
		"the rule's own error":                {"test.add", `{"a":1,"c":"fail"}`, `{"error":"c fails"}` + "\n", 1},
		"answer not encodeable":               {"test.add", `{"a":1,"c":"fail"}` + "\n" + `{"a":2}`, `{"error":"c fails"}` + "\n" + `{"sum":2}` + "\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			bad, err := testRegistry().Run(c.rule, strings.NewReader(c.in), &out)
			if err != nil || bad != c.bad || out.String() != c.out {
				t.Errorf("bad %d, err %v, out:\n%s", bad, err, out.String())
			}
		})
	}
}

func TestRunTypes(t *testing.T) {
	for _, in := range []string{`{"a":-1}`, `{"a":1.5}`, `{"a":"1"}`, `{"a":18446744073709551616}`} {
		var out bytes.Buffer
		bad, err := testRegistry().Run("test.add", strings.NewReader(in), &out)
		var answer map[string]string
		if err != nil || bad != 1 || json.Unmarshal(out.Bytes(), &answer) != nil || answer["error"] == "" {
			t.Errorf("%s: bad %d, %v, %s", in, bad, err, out.String())
		}
	}
}

func TestUnknownRule(t *testing.T) {
	var out bytes.Buffer
	if _, err := testRegistry().Run("nope", strings.NewReader("{}"), &out); !errors.Is(err, ErrUnknownRule) || out.Len() > 0 {
		t.Errorf("%v, out %q", err, out.String())
	}
	if got := testRegistry().Rules(); len(got) != 3 || got[0] != "test.add" {
		t.Errorf("rules %v", got)
	}
}

func TestLongLine(t *testing.T) {
	long := strings.Repeat("x", MaxLine+1)
	var out bytes.Buffer
	bad, err := testRegistry().Run("test.add", strings.NewReader(long+"\n"+`{"a":5}`), &out)
	lines := strings.Split(out.String(), "\n")
	if err != nil || bad != 1 || len(lines) != 3 || !strings.Contains(lines[0], "longer than") || lines[1] != `{"sum":5}` {
		t.Errorf("bad %d, %v, %d lines", bad, err, len(lines))
	}
}

func TestReadLineLimit(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader(strings.Repeat("a", 50)+"\r\n"+strings.Repeat("b", 51)+"\n\nc"), 16)
	for _, want := range []struct {
		n       int
		tooLong bool
		err     error
	}{{50, false, nil}, {0, true, nil}, {0, false, nil}, {1, false, io.EOF}} {
		line, tooLong, err := readLine(r, 50)
		if len(line) != want.n || tooLong != want.tooLong || !errors.Is(err, want.err) {
			t.Errorf("got %d bytes, %t, %v, want %+v", len(line), tooLong, err, want)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (failing) Read([]byte) (int, error)  { return 0, io.ErrUnexpectedEOF }

func TestStreamErrors(t *testing.T) {
	if _, err := testRegistry().Run("test.add", strings.NewReader(`{"a":1}`), failing{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write: %v", err)
	}
	if _, err := testRegistry().Run("test.add", failing{}, io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read: %v", err)
	}
}

func TestNewPanicsOnTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r := Func("x", "", func(addIn) (addOut, error) { return addOut{}, nil })
	New(r, r)
}

func FuzzRun(f *testing.F) {
	f.Add(`{"a":1}`)
	f.Add("{\"a\":1,\"b\":[{}]}\n\x00\n\"")
	f.Fuzz(func(t *testing.T, in string) {
		var out bytes.Buffer
		bad, err := testRegistry().Run("test.add", strings.NewReader(in), &out)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(out.String(), "\n")
		want := 0
		for line := range strings.SplitSeq(in, "\n") {
			if strings.TrimSpace(line) != "" {
				want++
			}
		}
		if bad > lines || lines > want {
			t.Errorf("%d lines in, %d out, %d bad", want, lines, bad)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if line != "" && !json.Valid([]byte(line)) {
				t.Errorf("answer %q is not JSON", line)
			}
		}
	})
}
