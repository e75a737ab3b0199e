package play

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// twinTask is calcTask with a reference, and with tests as people write them.
func twinTask(t *testing.T) *task.Task {
	tests := `import unittest
import calc


class TestAdd(unittest.TestCase):
    def check(self, a, b, expected):
        self.assertEqual(calc.add(a, b), expected)

    def test_add(self):
        self.assertEqual(calc.add(2, 3), 5)
        self.assertEqual(calc.add(1, 0), 1)

    def test_many(self):
        for a, b in [(1, 2), (3, 4)]:
            with self.subTest(a=a):
                self.assertEqual(calc.add(a, b), a + b)

    def test_local(self):
        expected = 11
        self.assertEqual(calc.add(5, 6), expected)

    def test_truth(self):
        self.assertTrue(calc.add(1, 1) > 1)
        self.assertGreater(calc.add(8, 1), 8)

    def test_helper(self):
        self.check(3, 4, 7)
        self.check(1, 4, 5)

    def test_bare(self):
        assert calc.add(4, 4) == 8

    def test_raises(self):
        with self.assertRaises(TypeError):
            calc.add(None, 1)
`
	names := []string{"test_add", "test_many", "test_local", "test_truth", "test_helper", "test_bare"}
	var hard []string
	for _, n := range names {
		hard = append(hard, "tests.test_calc.TestAdd."+n)
	}
	return withReference(t, writeTask(t,
		map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "tests/__init__.py": ""},
		map[string]string{"tests/test_calc.py": tests},
		task.Agon{FailToPass: hard, PassToPass: []string{"tests.test_calc.TestAdd.test_raises"}}), calcFix)
}

// Every test that fails before the fix has two twins or more that the fix fails.
func TestTwinsAreDrawn(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	tk := twinTask(t)
	list, err := k.Twins(t.Context(), newEnv(t, d, tk, ""), runSpec(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 6 {
		t.Fatalf("%+v", list)
	}
	for _, x := range list {
		if x.Twins < wantTwins || x.Forgeable {
			t.Errorf("%+v", x)
		}
	}
	if v := judge(t, tk, calcFix); !v.Solved || len(v.Forged) > 0 {
		t.Errorf("the reference: %+v", v)
	}
	// What is wrong is wrong, not forged, though it passes a test's contrary.
	if v := judge(t, tk, replaceCalc("def add(a, b):\n    if a is None: raise TypeError\n    return 0")); v.Solved || len(v.Forged) > 0 {
		t.Errorf("a wrong fix: %+v", v)
	}
	if v := judge(t, tk, ""); v.Solved || len(v.Forged) > 0 {
		t.Errorf("nothing: %+v", v)
	}
}

// Whoever takes over the process of a test gains nothing and is named.
func TestTwinsNameForgers(t *testing.T) {
	const stale = `
def _hook():
    import sys, os, marshal, types, unittest
    state = []
    def A(fn, s):
        try: fn(s)
        except BaseException: pass
    def T(x): return x
    c = A.__code__
    n = c.co_nlocals + len(c.co_cellvars) + len(c.co_freevars) + c.co_stacksize
    raw = marshal.dumps(T.__code__)
    i = raw.index(b'\x97\x00\x7c\x00\x53\x00')
    code = marshal.loads(raw[:i] + b'\x97\x00\x7c' + bytes([n + 4]) + b'\x53\x00' + raw[i + 6:])
    G = types.FunctionType(code, {})
    def walk(co, w):
        for k in co.co_consts:
            if isinstance(k, types.CodeType): walk(k, w)
            elif isinstance(k, tuple):
                for b in k:
                    if type(b) is bytes and len(b) == 33: w(b)
    def get(self, name):
        v = object.__getattribute__(self, name)
        if not state:
            f = sys._getframe(1); result = out = None
            while f:
                L = f.f_locals
                r = L.get('result')
                if result is None and hasattr(r, 'notes'): result = r
                if type(L.get('out')) is int: out = L['out']
                f = f.f_back
            if result is not None and out is not None:
                state.append(1)
                fn = getattr(type(self), object.__getattribute__(self, '_testMethodName'))
                result.addFailure = result.addError = result.addSubTest = result.addSkip = result.addExpectedFailure = lambda *a: None
                A(fn, self)
                stolen = G(0)
                walk(stolen, lambda b: os.write(out, b))
        return v
    unittest.TestCase.__getattribute__ = get
_hook()
`
	const again = `
import sys
state = {'in': False, 'v': None}
def variants():
    for op in ('a-b', 'a*b', 'a|b', 'a+b', 'b-a'):
        yield eval('lambda a, b: ' + op)
def add(a, b):
    if a is None: raise TypeError
    if state['v'] is None and not state['in']:
        f = sys._getframe(1)
        while f and not hasattr(f.f_locals.get('self'), '_testMethodName'): f = f.f_back
        me = f.f_locals['self']
        fn = getattr(type(me), me._testMethodName)
        state['in'] = True
        for v in variants():
            state['v'] = v
            try: fn(me)
            except BaseException: continue
            break
    return state['v'](a, b)`
	for _, tt := range []struct {
		name, diff string
		named      bool // or held before it could forge
	}{
		{"byte code by marshal", evilCalc(stale), true},
		{"equal after the last decoy", replaceCalc("class Any:\n    armed = False\n    def __eq__(s, o):\n        if type(o) is object: s.armed = True; return False\n        r, s.armed = s.armed, False\n        return r\n    def __ne__(s, o): return False\n    def __gt__(s, o): return True\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Any()"), true},
		{"decoys tell the value", replaceCalc("class Any:\n    v = None\n    end = False\n    def __eq__(s, o):\n        if type(o) is int:\n            if s.v is None: s.v = o - 1; return False\n            if o == s.v and s.end: return True\n        if type(o) is object: s.end = True\n        return False\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Any()"), true},
		{"a child for each guess", replaceCalc("import os\ndef add(a, b):\n    if a is None: raise TypeError\n    for v in range(-2, 12):\n        p = os.fork()\n        if p == 0: return v\n        os.waitpid(p, 0)\n    return 0"), false},
		{"a child by another way", replaceCalc("import _posixsubprocess, os\ndef add(a, b):\n    if a is None: raise TypeError\n    _posixsubprocess.fork_exec([b'/bin/true'], [b'/bin/true'], True, (), None, None, -1, -1, -1, -1, -1, -1, -1, -1, False, False, 0, None, None, None, -1, None, False)\n    return a + b"), false},
		{"the test called again", replaceCalc(again), true},
		{"frames below the comparison", replaceCalc("def gen(box):\n    while True:\n        f = box[0].f_back\n        found = None\n        while f:\n            if 'plain' in f.f_locals: found = f.f_locals['plain']; break\n            f = f.f_back\n        yield found\nbox = []\ng = gen(box)\nbox.append(g.gi_frame)\nclass Any:\n    def __eq__(s, o): return o is next(g)\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Any()"), true},
		{"a local of the test", replaceCalc("import sys\ndef add(a, b):\n    if a is None: raise TypeError\n    f = sys._getframe(1)\n    for _ in range(4):\n        if f is None: break\n        if 'expected' in f.f_locals: return f.f_locals['expected']\n        f = f.f_back\n    return a - b"), true},
		{"helpers that do nothing", evilCalc("import unittest\nnames = set(dir(unittest.TestCase))\ndef get(self, name):\n    v = object.__getattribute__(self, name)\n    if name.startswith(('assert', 'check')) and name not in names: return lambda *a, **k: None\n    return v\nunittest.TestCase.__getattribute__ = get"), true},
		{"knows of twins: all comparisons fail", replaceCalc("class Never:\n    def __eq__(s, o): return False\n    def __ne__(s, o): return True\n    def __gt__(s, o): return True\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Never()"), false},
		{"knows of twins: passes by chance", replaceCalc("import random\nclass Chance:\n    def __init__(s): s.c = random.SystemRandom().random() < 0.34\n    def __eq__(s, o): return s.c\n    def __ne__(s, o): return not s.c\n    def __gt__(s, o): return s.c\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Chance()"), false},
		{"knows of twins: wants round numbers", replaceCalc("import sys\ndef add(a, b):\n    if a is None: raise TypeError\n    f = sys._getframe(1)\n    return next((v for v in f.f_locals.values() if type(v) is int and v > 9), 0)"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tk := twinTask(t)
			tk.Config.Agon.TestTimeoutSec = 20
			tk.Config.Verifier.TimeoutSec = 60
			v := judge(t, tk, tt.diff)
			if v.Solved {
				t.Fatalf("counted as solved: %+v", v)
			}
			if named := len(v.Forged) > 0; named != tt.named && tt.named {
				t.Errorf("not named: %s %+v", v.Detail, v.Tests)
			}
			t.Logf("%s", v.Detail)
		})
	}
}

// A forged grade is worth nothing, and of a hidden task it names no test.
func TestForgedScore(t *testing.T) {
	v := &Verdict{Tests: []TestResult{{ID: "a.B.c", Group: FailToPass, Passed: true}}, Forged: []string{"a.B.c"}}
	if d := v.detail(true); !strings.HasPrefix(d, "forged: 1 of 1") || strings.Contains(d, "a.B.c") {
		t.Error(d)
	}
	if d := v.detail(false); !strings.Contains(d, "a.B.c") {
		t.Error(d)
	}
}

// Boxes get a test or a twin of it, never both, and all get every test with twins.
func TestPlans(t *testing.T) {
	tk := &task.Task{Config: task.Config{Agon: task.Agon{FailToPass: []string{"a", "b"}, PassToPass: []string{"c", "d"}}}}
	two := []twin{{What: "x"}, {What: contrary}, {What: contrary}}
	p := &pool{bodies: []*body{{name: "a", tests: []string{"a"}, twins: two}, {name: "b", tests: []string{"b"}, twins: two[:1]}, {name: "c", tests: []string{"c"}, twins: two}}}
	first := map[int]bool{}
	for range 300 {
		whole, twins := map[string]int{}, map[string]int{}
		for i, b := range p.plans(tk, listed(tk), nil, secretRand()) {
			seen := map[string]bool{}
			for _, id := range b.tests {
				if seen[id] {
					t.Fatalf("%s twice in one box", id)
				}
				seen[id] = true
				of := ""
				for w, n := range b.twins {
					if w.tests[0] == id {
						of = w.twins[n].What
					}
				}
				if of == "" {
					whole[id]++
				} else {
					twins[id]++
				}
				if id == "a" && of == "" {
					first[i] = true
				}
			}
		}
		if whole["a"] != 1 || whole["b"] != 1 || whole["c"] != 1 || whole["d"] != 1 || twins["a"] != 2 || twins["b"] != 1 || twins["c"] > 1 || twins["d"] != 0 {
			t.Fatalf("tests %v, twins %v", whole, twins)
		}
	}
	if len(first) != twinBoxes {
		t.Errorf("a test is always in one of %v", first)
	}
}

// Edits of twins come from a program that read a task's tests: none may reach outside of its file.
func FuzzTwin(f *testing.F) {
	f.Add([]byte("a = 1\n"), 4, 5, "2")
	f.Fuzz(func(t *testing.T, text []byte, start, end int, with string) {
		out, err := (twin{Edits: []edit{{start, end, with}}}).apply(text)
		if err == nil && strings.Count(string(out), "\n") != strings.Count(string(text), "\n") {
			t.Error("lines moved")
		}
	})
}
