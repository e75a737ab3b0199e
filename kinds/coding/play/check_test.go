package play

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	const ok = "def agent_main(input):\n    return ''\n"
	tests := []struct {
		name, src string
		want      string // code of the only finding, "" for none
	}{
		{"plain", ok, ""},
		{"annotated with defaults", "from typing import Any, Dict\n\ndef agent_main(input_dict: Dict[str, Any], repo_dir: str = \"repo\", test_mode: bool = False) -> Dict[str, str]:\n  pass\n", ""},
		{"many lines", "def agent_main(\n    input,  # a ) in a comment\n    *,\n    x=(1, 2),\n):\n    pass\n", ""},
		{"star args", "def agent_main(*args, **kw): pass\n", ""},
		{"positional only", "def agent_main(a, /): pass", ""},
		{"bom and crlf", "\ufeffimport os\r\ndef agent_main(x):\r\n\treturn None\r\n", ""},
		{"mac line ends", "x = 1\rdef agent_main(x):\r  pass\r", ""},
		{"after tricky strings", "s = '''\ndef agent_main():\n'''\nt = rb\"\\\"\"; u = f'{1}'\nv = (\n\"\"\"x\n\"\"\")\n" + ok, ""},
		{"joined lines", "x = 1 + \\\n  2\n" + ok, ""},
		{"utf-8 cookie", "# -*- coding: utf-8 -*-\n" + ok, ""},
		{"form feed", "\f" + ok, ""},
		{"later sync wins", "async def agent_main(x): pass\n" + ok, ""},
		{"quotes in an f-string of 3.12", "def agent_main(x):\n    return f'{', '.join(x)}'\n", ""},
		{"a type of 3.12", "type X = int\n" + ok, ""},
		{"a generic class of 3.12", "class A[T]: pass\n" + ok, ""},
		{"no brackets in an except of 3.14", "try:\n    pass\nexcept ValueError, OSError:\n    pass\n" + ok, ""},
		{"decorated", "@wrap\n" + ok, FindRebound},
		{"bound again", ok + "agent_main = wrap(agent_main)\n", FindRebound},
		{"semicolon", ok + "x = 1; agent_main = f\n", FindRebound},

		{"empty", "", FindNoMain},
		{"no colon", "def agent_main(x)\n    return ''\n", FindSyntax},
		{"no body", "def agent_main(x):\nreturn ''\n", FindSyntax},
		{"two signs", "def agent_main(x):\n    y = = x\n    return ''\n", FindSyntax},
		{"a word too much", "def agent_main(x):\n    retrun ''\n", FindSyntax},
		{"async", "async def agent_main(input):\n    pass\n", FindAsyncMain},
		{"async over two spaces", "async  def  agent_main(input): pass", FindAsyncMain},
		{"none", "def main(x): pass\n", FindNoMain},
		{"method", "class A:\n    def agent_main(self, x): pass\n", FindNoMain},
		{"in if", "if True:\n    def agent_main(x): pass\n", FindNoMain},
		{"in string", "'''\ndef agent_main(x): pass\n'''\n", FindNoMain},
		{"in comment", "# def agent_main(x): pass\n", FindNoMain},
		{"in brackets", "x = [\ndef_agent_main\n]\n", FindNoMain},
		{"lambda", "agent_main = lambda x: ''\n", FindNoMain},
		{"imported", "from os import path as agent_main\n", FindNoMain},
		{"no parameter", "def agent_main(): pass\n", FindBadSignature},
		{"two required", "def agent_main(a, b): pass\n", FindBadSignature},
		{"keyword only", "def agent_main(*, a): pass\n", FindBadSignature},
		{"required keyword", "def agent_main(a, *, b): pass\n", FindBadSignature},
		{"kwargs only", "def agent_main(**kw): pass\n", FindBadSignature},
		{"default is a dict with a comma", "def agent_main(a, b={1: 2, 3: 4}, c=lambda x, y=1: x): pass\n", ""},
		{"nul", ok + "\x00", FindNotText},
		{"not utf-8", ok + "# \xe9\n", FindNotUTF8},
		{"latin cookie", "# coding: latin-1\n" + ok, FindEncoding},
		{"too large", strings.Repeat("#", MaxAgentBytes+1), FindTooLarge},
		{"open string", "x = 'a\n" + ok, FindSyntax},
		{"open triple", "x = '''a\n" + ok, FindSyntax},
		{"open bracket", "x = (\n" + ok, FindSyntax},
		{"wrong bracket", "x = (]\n" + ok, FindSyntax},
		{"deep", strings.Repeat("(", maxBrackets+1), FindSyntax},
		{"stray", "x = ?\n" + ok, FindSyntax},
		{"malformed", "def agent_main: pass\n", FindSyntax},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := New(Config{}).Check(t.Context(), nil, fstest.MapFS{"agent.py": {Data: []byte(tt.src)}})
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[0].Code != tt.want) {
				t.Fatalf("got %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckFiles(t *testing.T) {
	ok := &fstest.MapFile{Data: []byte("def agent_main(x): pass\n")}
	tests := []struct {
		name  string
		files fstest.MapFS
		want  []string
	}{
		{"none", fstest.MapFS{}, []string{FindNoFile}},
		{"other name", fstest.MapFS{"main.py": ok}, []string{FindExtraFile, FindNoFile}},
		{"extra", fstest.MapFS{"agent.py": ok, "lib/x.py": ok}, []string{FindExtraFile}},
		{"link", fstest.MapFS{"agent.py": {Mode: 0o777 | 1<<27, Data: []byte("/etc/passwd")}}, []string{FindNotRegular}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := New(Config{}).Check(t.Context(), nil, tt.files)
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, f := range got {
				codes = append(codes, f.Code)
			}
			if !slices.Equal(codes, tt.want) {
				t.Fatalf("got %v, want %v", codes, tt.want)
			}
		})
	}
}

func FuzzScanPython(f *testing.F) {
	f.Add("def agent_main(x, *, y=1): pass\n")
	f.Add("@d\nasync def f(a: 'x' = {1: 2}, /, *b, **c): pass\n")
	f.Add("x = rb'''\\''''\r\ny = (\n1e-5,\n)\n")
	f.Fuzz(func(t *testing.T, src string) {
		if !utf8.ValidString(src) {
			return
		}
		m, err := scanPython(src)
		if err != nil {
			return
		}
		for _, d := range m.Defs {
			if !strings.Contains(src, d.Name) {
				t.Fatalf("invented %q", d.Name)
			}
			takesOneArgument(d.Params)
		}
	})
}
