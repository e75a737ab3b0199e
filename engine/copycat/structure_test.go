package copycat

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
)

const script = `"""A script."""
import json
import math as m
from agon_sdk import entrypoint, search_web

LIMIT = 16
UNREAD = [1, 2, 3]
TABLE = {"a": 1, 'b': 2}


def unused(x):
    return x + 1


def score(text, *, weight=2, floor=0):
    """Doc."""
    words = [w for w in text.split() if w not in TABLE]
    total = 0
    for i, w in enumerate(words):
        # a comment
        total += len(w) * weight
    if total > LIMIT:
        pass
        return m.sqrt(total)
    else:
        return max(total, floor)


class Box:
    """Doc."""
    size = 3

    def get(self, key):
        return self.size + key


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    claim = request["claim_text"]
    found = await search_web(claim, num=5)
    value = score(claim, weight=3, floor=1)
    note = f"found {len(found.results)} of {value:.2f}"
    return {"verdict": 1, "justification": note + json.dumps([Box().get(1)])}
`

func hashOf(t *testing.T, src string) string {
	t.Helper()
	h, err := StructureHash(src)
	if err != nil {
		t.Fatalf("%v in\n%s", err, src)
	}
	return h
}

// edit replaces in the script and demands that something was replaced.
func edit(t *testing.T, pairs ...string) string {
	t.Helper()
	out := script
	for i := 0; i < len(pairs); i += 2 {
		next := strings.ReplaceAll(out, pairs[i], pairs[i+1])
		if next == out {
			t.Fatalf("%q is not in the script", pairs[i])
		}
		out = next
	}
	return out
}

func TestStructureHashIsInvariant(t *testing.T) {
	want := hashOf(t, script)
	move := func(part string) string {
		i := strings.Index(script, part)
		j := strings.Index(script, "@entrypoint")
		return script[:i] + script[i+len(part):j] + part + script[j:]
	}
	helper := script[strings.Index(script, "def score"):strings.Index(script, "class Box")]
	for name, src := range map[string]string{
		"comments":             edit(t, "# a comment", "# another", "LIMIT = 16", "LIMIT = 16  # words"),
		"white space":          edit(t, "    ", "\t", " = ", "  =  ", "\n\n\n", "\n"),
		"crlf and bom":         "\ufeff" + strings.ReplaceAll(script, "\n", "\r\n"),
		"joined lines":         edit(t, `return {"verdict": 1, "justification": note`, "return {\n        'verdict': 1,\n 'justification': note \\\n "),
		"literals":             edit(t, "LIMIT = 16", "LIMIT = 0x1_0", `"claim_text"`, `'claim' "_\x74ext"`, "weight=3", "weight=0b11"),
		"locals":               edit(t, "total", "summe", "words", "ws", "for i, w", "for k, w", "claim =", "c =", "(claim,", "(c,"),
		"helpers":              edit(t, "score", "rate", "Box", "Kiste", "LIMIT", "CAP"),
		"parameters":           edit(t, "weight", "gewicht", "floor", "boden", "self", "this", "request", "req"),
		"imports":              edit(t, "import math as m", "import math", "m.sqrt", "math.sqrt", "import json", "import json as j", "json.dumps", "j.dumps"),
		"from alias":           edit(t, "entrypoint, search_web", "search_web as sw, entrypoint as ep", "@entrypoint", "@ep", "await search_web", "await sw"),
		"import order":         edit(t, "import json\nimport math as m\n", "import math as m\nimport json\n"),
		"imports split":        edit(t, "from agon_sdk import entrypoint, search_web", "from agon_sdk import search_web\nfrom agon_sdk import entrypoint"),
		"unused import":        edit(t, "import json\n", "import json\nimport os, sys\n"),
		"unused helper gone":   edit(t, "def unused(x):\n    return x + 1\n", ""),
		"more unused helpers":  edit(t, "class Box", "def more(a, b=2):\n    return a\n\n\nclass Box"),
		"helper order":         move(helper),
		"unread constant":      edit(t, "UNREAD = [1, 2, 3]\n", "UNREAD = 7\nOTHER = ('x',)\n"),
		"constants order":      edit(t, "LIMIT = 16\nUNREAD = [1, 2, 3]\n", "UNREAD = [1, 2, 3]\nLIMIT = 16\n"),
		"pass padding":         edit(t, "        pass\n", "", "    total = 0\n", "    total = 0\n    pass\n"),
		"constant expressions": edit(t, "    total = 0\n", "    total = 0\n    1 + 2\n    'x'\n    ...\n"),
		"docstrings":           edit(t, `"""Doc."""`, `"""Other."""`, `"""A script."""`, "'''B'''"),
		"semicolons":           edit(t, "    total = 0\n    for", "    total = 0; pass\n    for"),
		"brackets":             edit(t, "return self.size + key", "return (self.size + (key))"),
		"empty else":           edit(t, "        total += len(w) * weight\n", "        total += len(w) * weight\n    else:\n        pass\n"),
	} {
		if got := hashOf(t, src); got != want {
			t.Errorf("%s: the hash changed\n%s", name, src)
		}
	}
}

func TestStructureHashIsSensitive(t *testing.T) {
	seen := map[string]string{hashOf(t, script): "the script"}
	for name, src := range map[string]string{
		"constant":         edit(t, "LIMIT = 16", "LIMIT = 17"),
		"float for int":    edit(t, "LIMIT = 16", "LIMIT = 16.0"),
		"text":             edit(t, `"found {`, `"seen {`),
		"format spec":      edit(t, ":.2f", ":.3f"),
		"conversion":       edit(t, "{value:.2f}", "{value!r:.2f}"),
		"keyword order":    edit(t, "weight=3, floor=1", "floor=1, weight=3"),
		"tool keyword":     edit(t, "num=5", "start=5"),
		"statement order":  edit(t, "    claim = request[\"claim_text\"]\n    found = await search_web(claim, num=5)\n    value = score(claim, weight=3, floor=1)", "    claim = request[\"claim_text\"]\n    value = score(claim, weight=3, floor=1)\n    found = await search_web(claim, num=5)"),
		"dead code":        edit(t, "    total = 0\n", "    total = 0\n    if False:\n        total = 1\n"),
		"constant folding": edit(t, "LIMIT = 16", "LIMIT = 8 + 8"),
		"operator":         edit(t, "total > LIMIT", "total >= LIMIT"),
		"attribute":        edit(t, "m.sqrt", "m.log"),
		"module":           edit(t, "import math as m", "import cmath as m"),
		"swapped names":    edit(t, "max(total, floor)", "max(floor, total)"),
		"builtin":          edit(t, "max(total", "min(total"),
		"decorator":        edit(t, `@entrypoint("evaluate_criterion")`, `@entrypoint("other")`),
		"default":          edit(t, "weight=2", "weight=4"),
		"field":            edit(t, "size", "sizes"),
		"method":           edit(t, "def get", "def got", ".get(1)", ".got(1)"),
		"no else":          edit(t, "    else:\n        return max(total, floor)", "    return max(total, floor)"),
		"helper that acts": edit(t, "def unused(x):", "@print\ndef unused(x):"),
		"shadowed global":  edit(t, "    total = 0\n", "    global LIMIT\n    total = 0\n"),
	} {
		h := hashOf(t, src)
		if other, ok := seen[h]; ok {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[h] = name
	}
}

func TestCheckPython(t *testing.T) {
	for _, src := range []string{
		"", "\n\n# only a comment", "x = 1", "def f(a, /, b, *, c): return a",
		"async def f():\n    async with a as b, c: pass\n    async for x in y: await z\n    return [i async for i in q()]",
		"match x:\n    case [1, *rest] if rest: pass\n    case {'a': A.b, **k}: pass\n    case P(x=1) | None as q: pass\n    case (1 + 2j): pass\n    case _: pass",
		"match = 1\nmatch[0]\nmatch(x)\nprint(match)\ncase = 2",
		"with (open(a) as b, open(c) as d,): pass\nwith (a, b): pass\nwith (a): pass",
		"try:\n    pass\nexcept* (A, B) as e:\n    raise X from e\nelse: pass\nfinally: pass",
		"x: int = 3\ny[0]: str\na = b = *c, d\na, *b = c\n(x := 3)\nlambda *a, k=1, **kw: a\n",
		"f'{a!r:>{w}}' f\"{ {'x': 1}['x'] }\" 'z' f'{x=}' f'{{}}'", "rb'\\xff' b'a'", "print(*a, **b, c=1)\nx[1:2, ::3, ...]\nx[*a]",
		"a if b else c\nnot a in b\na is not b\n-x ** -y\na < b <= c\n", "class A(B, metaclass=C):\n    x = 1\n    def f(self): nonlocal_ = 1",
		"if a:\n\tif b:\n\t\tpass\nelif c: pass\nelse: pass\nwhile x:\n  break\nelse: pass", "@a.b(c)\n@d\nclass E: pass", "1if x else 2\n0_0\n1e-3j\n.5\n0xFF",
		"del a, b[0], (c.d)\nassert a, b\nglobal_ = 1\nimport a.b.c as d, e\nfrom . import x\nfrom ...a.b import (c as d, e,)\n", "é = 1\nх = 2",
		"def f():\n    def g():\n        nonlocal x\n    x = 1\n    yield\n    y = yield x\n    yield from z\n",
	} {
		if err := CheckPython(src); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
	for src, line := range map[string]int{
		"def f(:\n  pass": 2, "x = (1,\n": 0, "x = 'abc": 1, "if x\n  pass": 1, "  x = 1": 1, "if x:\n  a\n b": 3, "if x:\npass": 2, "return 1": 1,
		"break": 1, "f(a=1, a=2)": 1, "f(a=1, b)": 1, "def f(a, a): pass": 1, "1 = x": 1, "x = ": 1, "0123": 1, "1abc": 1, "x = 1 +": 1, "a b": 1,
		"def f(a=1, b): pass": 1, "'''abc": 1, "x = ]": 1, "(]": 1, "f'{'": 1, "f'{}'": 1, "f'{a b}'": 1, "try:\n  pass": 0, "await x": 1, "from x import": 1,
		"class A\n": 1, "lambda x: = 1": 1, "x = $": 1, "print 'a'": 1, "import a.": 1, "b'é'": 1, "'a' b'b'": 1, "\x00": 1, "\xff": 1, "\\x": 1,
		"if x:\n\ta\n        b": 3, "nonlocal x": 1, "async x": 1, "x = yield": 1, "for x in y: pass\nelse": 2, "*a": 0, "f() = 1": 1, "a + 1 += 2": 1,
		strings.Repeat("(", 300): 1, strings.Repeat("-", 5000) + "1": 1,
	} {
		err := CheckPython(src)
		if src == "*a" {
			continue // an expression statement may be starred where a tuple could be; the compiler's business
		}
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%.60q is let in", src)
		} else if line > 0 && se.Line != line {
			t.Errorf("%.60q: line %d, want %d (%s)", src, se.Line, line, se.Msg)
		}
	}
	if err := CheckPython(strings.Repeat("#", MaxSource+1)); err == nil {
		t.Error("too large a source is let in")
	}
	if err := CheckPython("x = 1" + strings.Repeat(" + 1", 60_000)); err != nil {
		t.Errorf("a long sum: %v", err)
	}
	if _, err := StructureHash("if a: pass\n" + strings.Repeat("elif a: pass\n", 20_000)); err != nil {
		t.Errorf("a long chain: %v", err)
	}
}

func TestCalcStructureHash(t *testing.T) {
	var out bytes.Buffer
	in := "{\"source\":\"x = 1\\nprint(x)\"}\n{\"source\":\"y = 0x1 # z\\nprint(y)\"}\n{\"source\":\"x = (\"}\n"
	bad, err := calc.New(Rule("golf.structure_hash")).Run("golf.structure_hash", strings.NewReader(in), &out)
	lines := strings.Split(out.String(), "\n")
	if err != nil || bad != 1 || lines[0] != lines[1] || len(lines[0]) != len(`{"hash":""}`)+64 || !strings.HasPrefix(lines[2], `{"error":"line `) {
		t.Errorf("%v %d\n%s", err, bad, out.String())
	}
}

func FuzzStructureHash(f *testing.F) {
	f.Add(script)
	f.Add("f'{a!r:{b}}'\nmatch x:\n  case [*_]: pass\n")
	f.Add("with (a as b): pass\nx: int\n\tq")
	f.Fuzz(func(t *testing.T, src string) {
		a, err := StructureHash(src)
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Line < 1 {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if _, err := Opacities(src); err != nil {
			t.Fatalf("%q: %v", src, err)
		}
		// A comment below changes nothing.
		if b, err := StructureHash(src + "\n# end\n"); err != nil || a != b {
			t.Fatalf("%q: a comment changes the hash: %v", src, err)
		}
	})
}

// A script that reads itself is not a copy of one whose docstring or constant
// differs; without reflection these are padding.
func TestReflectionKeepsWhatItReads(t *testing.T) {
	hash := func(src string) string {
		t.Helper()
		h, err := StructureHash(src)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for name, src := range map[string]string{
		"docstring":        "def ask(q):\n    \"\"\"%s\"\"\"\n    return llm(ask.__doc__ + q)\nrun(ask)\n",
		"constant by name": "PROMPT_A = \"%s\"\nrun(globals()[\"PROMPT_A\"])\n",
		"inspect":          "import inspect\ndef ask(q):\n    \"%s\"\n    return llm(inspect.getdoc(ask))\nrun(ask)\n",
	} {
		if hash(strings.Replace(src, "%s", "think first", 1)) == hash(strings.Replace(src, "%s", "be quick", 1)) {
			t.Errorf("%s: two prompts have one hash", name)
		}
	}
	plain := "def ask(q):\n    \"\"\"%s\"\"\"\n    return llm(q)\nrun(ask)\n"
	if hash(strings.Replace(plain, "%s", "a", 1)) != hash(strings.Replace(plain, "%s", "b", 1)) {
		t.Error("without reflection a docstring counts")
	}
}
