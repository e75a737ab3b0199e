package play

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// Code that owns the process of a test looks for what tells a twin from a test, other than
// what is expected: it passes where it finds nothing, and fails by an assertion where it does.
func TestNothingTellsTwins(t *testing.T) {
	t.Parallel()
	pytest := func(test, fix string, ids ...string) openTask {
		o := openTask{runner: "pytest", base: map[string]string{"calc.py": "def add(a, b):\n    return a - b\n"}, hidden: map[string]string{"tests/test_calc.py": test}, fix: fix, pass: []string{}}
		for _, id := range ids {
			o.fail = append(o.fail, "tests/test_calc.py::"+id)
		}
		return o
	}
	for _, tt := range []struct {
		name, diff string
		task       openTask
	}{
		{
			// pytest names cases by their values, and a twin's process once knew the names of the test's.
			"names of cases that are others", evilCalc(`import gc
import _pytest.python as P
def runtest(self):
    unit, ids = self.nodeid.split("[")[0] + "[", {i.nodeid for i in self.session.items}
    for o in gc.get_objects():
        texts = list(o) + list(o.values()) if type(o) is dict else o if type(o) in (list, tuple, set) else []
        for x in texts:
            if type(x) is str and x.startswith(unit) and x not in ids: raise AssertionError("a twin")
P.Function.runtest = runtest`),
			pytest("import pytest\nfrom calc import add\n\n\n@pytest.mark.parametrize('a, b, expected', [(1, 2, 3), (2, 2, 4)])\ndef test_cases(a, b, expected):\n    assert add(a, b) == expected\n", calcFix, "test_cases[1-2-3]", "test_cases[2-2-4]"),
		},
		{
			// No mark can stand in this test, and only files with twins were once written in the box.
			"a file that is newer than others", evilCalc(`import os
import _pytest.python as P
def runtest(self):
    a, b = (os.stat(p).st_mtime for p in (str(self.path), __file__))
    if a > b + 0.01: raise AssertionError("a twin")
P.Function.runtest = runtest`),
			pytest("from calc import add\n\n\ndef test_nested():\n    def more(a):\n        return add(a, 1)\n    assert more(2) == 3\n    assert more(7) == 8\n", calcFix, "test_nested"),
		},
		{
			"a message that says what was expected", evilCalc(`import ast
import _pytest.python as P
def runtest(self):
    for n in ast.walk(ast.parse(open(str(self.path)).read())):
        if isinstance(n, ast.Assert):
            values = [str(c.value) for x in n.test.comparators for c in ast.walk(x) if isinstance(c, ast.Constant)] if isinstance(n.test, ast.Compare) else ["?"]
            if any(v not in n.msg.value for v in values): raise AssertionError("a twin")
P.Function.runtest = runtest`),
			pytest("from calc import add\n\n\ndef test_sum():\n    assert add(40, 7) == 47, 'the sum is 47'\n    assert add('a ', 'b') == 'a b', 'wants a b'\n", calcFix, "test_sum"),
		},
		{
			// It needs to know nothing: one of the expectations is what the fix is about.
			"one that fails is let by, two are not", evilCalc(`import ast, sys
import _pytest.python as P
def runtest(self):
    tree = ast.parse(open(str(self.path)).read())
    class Count(ast.NodeTransformer):
        def visit_Assert(self, n):
            return ast.copy_location(ast.Expr(ast.Call(ast.Name("_count", ast.Load()), [n.test], [])), n)
    ns, failed = {}, []
    ns["_count"] = lambda ok: ok or failed.append(1)
    exec(compile(ast.fix_missing_locations(Count().visit(tree)), "x", "exec"), ns)
    ns[self.originalname]()
    if len(failed) > 1: raise AssertionError("a twin")
P.Function.runtest = runtest`),
			pytest("from calc import add\n\n\ndef test_many():\n"+zeros(20, 40)+"    assert add(8, 9) == 17\n"+zeros(60, 80), calcFix, "test_many"),
		},
		{
			"an exception that is every exception", replaceCalc(omni),
			pytest("import pytest\nfrom calc import add\n\n\ndef test_raises():\n    with pytest.raises(TypeError):\n        add(None, 'x')\n    with pytest.raises(ValueError):\n        add(1, 'x')\n",
				replaceCalc("def add(a, b):\n    if a is None: raise TypeError('a')\n    if b == 'x': raise ValueError('b')\n    return a + b"), "test_raises"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := judgeForger(t, tt.task, tt.diff)
			if v.Solved || v.Refused != "" {
				t.Errorf("%+v", v)
			}
			t.Logf("forged %d: %s", len(v.Forged), v.Detail)
			if v := judgeForger(t, tt.task, tt.task.fix); !v.Solved {
				t.Errorf("the reference: %+v", v)
			}
		})
	}
}

const omni = "class Every(ValueError, TypeError, KeyError, IndexError, RuntimeError, ZeroDivisionError): pass\ndef add(a, b):\n    raise Every()"

// A message says what its twin expects, and of a text no part of a word is taken for it.
func TestMessagesOfTwins(t *testing.T) {
	for _, tt := range []struct{ message, old, now, want string }{
		{`"got %d, want 3"`, "3", "8", `"got %d, want 8"`},
		{`"got 33 of 3.3 or x3"`, "3", "8", `"got 33 of 8.8 or x3"`},
		{`"wants a b"`, `"a b"`, `"b a"`, `"wants b a"`},
		{"`wants a b`", `"a b"`, `"b a"`, ""},
		{`"nothing of it"`, "3", "8", ""},
		{`"nothing of it"`, `""`, `"x"`, ""},
	} {
		if got, ok := said(tt.message, tt.old, tt.now); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: %s, want %s", tt.message, got, tt.want)
		}
	}
	texts := map[string]string{
		"a_test.go":  "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif got := Add(1, 2); got != 3 {\n\t\tt.Errorf(\"got %d, want 3\", got)\n\t}\n}\n",
		"a.test.js":  "test('adds', () => {\n  assert.equal(add(1, 2), 3, 'is 3')\n})\n",
		"tests/a.rs": "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3, \"is 3\");\n}\n",
	}
	for name, b := range map[string][]*body{
		"a_test.go":  goUnits(map[string][]byte{"a_test.go": []byte(texts["a_test.go"])}, []string{".::TestA"}, "x"),
		"a.test.js":  scriptUnits(map[string][]byte{"a.test.js": []byte(texts["a.test.js"])}, []string{"a.test.js::adds"}, "x"),
		"tests/a.rs": rustUnits(map[string][]byte{"tests/a.rs": []byte(texts["tests/a.rs"])}, []string{"test a::adds"}, "x"),
	} {
		seen := 0
		for _, w := range b[0].twins {
			text, err := w.apply([]byte(texts[name]))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "3") && w.What != contrary && strings.Contains(string(text), "add(1, 2)") {
				t.Errorf("%s: %s", name, text)
			}
			if w.What != contrary {
				seen++
			}
		}
		if seen == 0 {
			t.Errorf("%s: nothing is falsified", name)
		}
	}
}

// Tests of Rust beside the code that a patch changes are not the task's alone: a twin of them would be one of another text.
func TestTestsBesideCode(t *testing.T) {
	tk := openTask{
		runner: "cargo", base: map[string]string{"src/lib.rs": "pub fn add() {}\n", "tests/it.rs": "", "src/own.rs": ""}, hidden: map[string]string{"src/own.rs": "#[test]\nfn adds() {}\n"},
		fix: "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n-pub fn add() {}\n+pub fn add() { }\n", fail: []string{"lib::own::adds"}, pass: []string{},
	}.task(t)
	g, err := buildGrading(tk, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"src/lib.rs": false, "tests/it.rs": true, "src/own.rs": true} {
		if g.decided(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// zeros are expectations that the tree without a fix meets.
func zeros(from, to int) (out string) {
	for i := from; i < to; i++ {
		out += fmt.Sprintf("    assert add(%d, 0) == %[1]d\n", i)
	}
	return out
}

// Of a test with many expectations one at least of what is played falsifies what the fix is about.
func TestTwinsStandWhereItFails(t *testing.T) {
	t.Parallel()
	many := func(form string) (out string) {
		for _, a := range []int{21, 22, 23, 24, 25, 26, 27, 28, 29} {
			b := 0
			if a == 26 {
				b = 5
			}
			out += fmt.Sprintf(form+"\n", a, b, a+b)
		}
		return out
	}
	inGo, inNode := goTask(), nodeTask()
	inGo.hidden = map[string]string{"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestMany(t *testing.T) {\n" + many("\tif got := Add(%d, %d); got != %d {\n\t\tt.Fatal(got)\n\t}") + "}\n"}
	inGo.fail, inGo.pass = []string{".::TestMany"}, []string{}
	inNode.hidden = map[string]string{"test/calc.test.js": "const { test } = require('node:test')\nconst assert = require('node:assert')\nconst { add } = require('../calc')\n\ntest('many', () => {\n" + many("  assert.strictEqual(add(%d, %d), %d)") + "})\n"}
	inNode.fail, inNode.pass = []string{"test/calc.test.js::many"}, []string{}
	inPytest := pytestTask()
	inPytest.hidden = map[string]string{"tests/test_calc.py": "from calc import add\n\n\ndef test_many():\n" + many("    assert add(%d, %d) == %d")}
	inPytest.fail, inPytest.pass = []string{"tests/test_calc.py::test_many"}, []string{}
	tasks := map[string]*task.Task{"unittest": withReference(t, writeTask(t, map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "tests/__init__.py": ""},
		map[string]string{"tests/test_calc.py": "import unittest\nfrom calc import add\n\n\nclass TestAdd(unittest.TestCase):\n    def test_many(self):\n" + many("        self.assertEqual(add(%d, %d), %d)")},
		task.Agon{FailToPass: []string{"tests.test_calc.TestAdd.test_many"}, PassToPass: []string{}}), calcFix)}
	for _, o := range []openTask{inPytest, inGo, inNode} {
		tasks[o.runner] = o.task(t)
	}
	for name, tk := range tasks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needChain(t, name)
			k, d := newKind(t)
			p, err := k.twinsOf(t.Context(), newEnv(t, d, tk, ""), tk, openSpec().Policy)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(p.bodies[0].twins, func(w twin) bool { return w.decides && w.rank() == 0 }) {
				t.Errorf("%+v", p.bodies[0].twins)
			}
			for range 20 {
				asked := 0
				for _, b := range p.plans(tk, listed(tk), nil, secretRand()) {
					for _, n := range b.twins {
						asked += p.bodies[0].twins[n].decided()
					}
				}
				if asked == 0 {
					t.Fatal("what decides is not asked for")
				}
			}
		})
	}
}
