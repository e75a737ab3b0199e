package signing

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// wireW is body (W) of spec/bitsota.md 3, as it travels.
const wireW = `{"claim_id": "c1", "base_ref": "main", "patch": "diff --git a/x b/x\n+\u00e9\ud83d\ude00 \"q\" \\ / <&> \u007f\t\u0001\r\n", "summary": "s", "claimed_metrics": {"heldout_ppl": 0.0, "tiny": 1e-07, "n": 3, "big": 1e+16, "neg": -2.5}}`

func TestCanonicalVectors(t *testing.T) {
	for in, want := range map[string]string{
		`{"claim_description":"manual miner run"}`: "c1be902f35c60f63f4624eeb84549ac540c54eec7a0fe818943f81145cec43ad",
		wireW: "4504d798560d4d6e995dd72eee5ed5352eacb5699f9cc7938be90a0916351d0c",
	} {
		got, err := CanonicalJSON([]byte(in))
		if err != nil || BodyHash(got) != want {
			t.Errorf("%.30s…: %s %v", in, BodyHash(got), err)
		}
		if python, err := PythonJSON([]byte(in)); err != nil || string(python) != string(got) {
			t.Errorf("python form differs: %s %v", python, err)
		}
	}
	if BodyHash(nil) != EmptyBody {
		t.Error("hash of no body")
	}
}

func TestCanonicalJSON(t *testing.T) {
	for _, c := range []struct{ in, literal, python string }{
		{`{}`, `{}`, `{}`},
		{" [ 1 ,\t2\r\n]\n", `[1,2]`, `[1,2]`},
		{`[]`, `[]`, `[]`},
		{`{"b":1,"a":{"z":[true,false,null],"y":""}}`, `{"a":{"y":"","z":[true,false,null]},"b":1}`, ""},
		{`{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`, ""},
		{`{"a":1,"\u0061":2}`, `{"a":2}`, ""},
		{`{"B":1,"a":2,"é":3,"\uffff":4,"\ud83d\ude00":5,"":6}`, `{"":6,"B":1,"a":2,"\u00e9":3,"\uffff":4,"\ud83d\ude00":5}`, ""},
		{`{"\udfff":1,"\ue000":2,"\ud800":3}`, `{"\ud800":3,"\udfff":1,"\ue000":2}`, ""},
		{`"\/\u002f<&>'\u2028é"`, `"//<&>'\u2028\u00e9"`, ""},
		{"\"\u007f\\u0000\\u001F\\b\\f\"", `"\u007f\u0000\u001f\b\f"`, ""},
		{`"\ud83d x \ud83d\ud83d\ude00"`, `"\ud83d x \ud83d\ud83d\ude00"`, ""},
		{
			`[1e-7,0.10,1E5,-0,-0.0,1e16,1e15,123456789012345678901234567890,1.5e300,0.0001,0.00001,1e400,-1e400,2.0,1e22,5e-324]`,
			`[1e-7,0.10,1E5,-0,-0.0,1e16,1e15,123456789012345678901234567890,1.5e300,0.0001,0.00001,1e400,-1e400,2.0,1e22,5e-324]`,
			`[1e-07,0.1,100000.0,0,-0.0,1e+16,1000000000000000.0,123456789012345678901234567890,1.5e+300,0.0001,1e-05,Infinity,-Infinity,2.0,1e+22,5e-324]`,
		},
	} {
		if c.python == "" {
			c.python = c.literal
		}
		if got, err := CanonicalJSON([]byte(c.in)); err != nil || string(got) != c.literal {
			t.Errorf("%s: %s %v", c.in, got, err)
		}
		if got, err := PythonJSON([]byte(c.in)); err != nil || string(got) != c.python {
			t.Errorf("%s in Python: %s %v", c.in, got, err)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, in := range []string{
		"", " ", "{", "[", "[1", "[1,", "[1,]", "{\"a\"", `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a" 1}`, "nul", "True", "NaN", "Infinity", "-",
		"01", "1.", ".5", "1e", "1e+", "+1", `"`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\xff\"", "\"\xed\xa0\x80\"", `{} {}`, "1 2", "\xef\xbb\xbf{}",
		strings.Repeat("[", maxDepth+2),
	} {
		if got, err := CanonicalJSON([]byte(in)); err == nil {
			t.Errorf("%q accepted as %s", in, got)
		}
	}
	deep := strings.Repeat(`{"b":1,"a":`, maxDepth) + "0" + strings.Repeat("}", maxDepth)
	if _, err := CanonicalJSON([]byte(deep)); err != nil {
		t.Errorf("depth %d: %v", maxDepth, err)
	}
}

func TestPythonText(t *testing.T) {
	for in, want := range map[string]string{
		`"a'b"`: "a'b", `12`: "12", `-0`: "0", `1E5`: "100000.0", `true`: "True", ` null `: "None", `false`: "False",
		`["a",1,{"k":"it's","q":"\"'","n":null}]`:             `['a', 1, {'k': "it's", 'q': '"\'', 'n': None}]`,
		`["\n\u0001é\u007f\u0080\u2028\ud83d\ude00\ud800\\"]`: "['\\n\\x01é\\x7f\\x80\\u2028😀\\ud800\\\\']",
		`[]`: "[]", `{}`: "{}", `[1e400]`: "[inf]", `{"b":1,"a":[]}`: "{'b': 1, 'a': []}",
	} {
		if got, err := PythonText([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "[1", `{"a":1,"a":2}`, "1 2", `{"a"}`, `[1 2]`, strings.Repeat("[", 1000)} {
		if got, err := PythonText([]byte(in)); err == nil {
			t.Errorf("%q accepted as %s", in, got)
		}
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{NativeBodyHash(), "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"},
		{string(Native("1", "a", "b", "u", "h")), "1.a.b.u.h"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{wireW, `{"b":[1,{"a":null}],"a":-0.5e+7,"a":"\ud800\""}`, `[[[]]]`, `"\u00e9"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, form := range []func([]byte) ([]byte, error){CanonicalJSON, PythonJSON} {
			once, err := form(b)
			if err != nil {
				continue
			}
			if !json.Valid(b) {
				t.Fatalf("accepted %q, which is not JSON", b)
			}
			if strings.Contains(string(once), "Infinity") {
				continue // as Python prints it; not JSON
			}
			again, err := form(once)
			if err != nil || string(again) != string(once) {
				t.Fatalf("%q gives %q, then %q (%v)", b, once, again, err)
			}
			for _, c := range once {
				if c < 0x20 || c > 0x7e {
					t.Fatalf("byte %#x in %q", c, once)
				}
			}
		}
		// What it says is unchanged.
		canonical, err := CanonicalJSON(b)
		if err != nil || !utf8.Valid(b) {
			return
		}
		var before, after any
		if json.Unmarshal(b, &before) == nil && (json.Unmarshal(canonical, &after) != nil || !reflect.DeepEqual(before, after)) {
			t.Fatalf("%q became %q", b, canonical)
		}
	})
}

func FuzzPythonText(f *testing.F) {
	f.Add([]byte(`["a",{"b":1.5}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := PythonText(b); err == nil && !json.Valid(b) {
			t.Fatalf("accepted %q, which is not JSON", b)
		}
	})
}
