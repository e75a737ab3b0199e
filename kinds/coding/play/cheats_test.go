package play

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// lockWords is a patch of Python that speaks between boxes by locks on files that they share: each
// box takes a place and locks the file of the value that it sees expected; the value that
// two of the three see is the test's, as only one place of a twin is false.
const lockWords = `import fcntl, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
held = []
def lock(name):
    f = open(os.path.join(here, "words", name))
    try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: return False
    held.append(f)
    return True
def ask(own):
    place = next((p for p in "012" if lock(p)), "9")
    lock("%s-%d" % (place, own))
    end, seen = time.time() + 6, [own]
    while time.time() < end and len(seen) < 3:
        time.sleep(0.05)
        seen = [own]
        for p in "012":
            for v in range(32):
                if p == place: continue
                f = open(os.path.join(here, "words", "%s-%d" % (p, v)))
                try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(f, fcntl.LOCK_UN)
                except OSError: seen.append(v)
                f.close()
    time.sleep(1)
    return seen
def add(a, b):
    f = sys._getframe(1)
    while f is not None and "expected" not in f.f_locals: f = f.f_back
    own = f.f_locals["expected"]
    if type(own) is not int or not 0 <= own < 32: return -1
    seen = ask(own)
    if len(seen) == 1: raise AssertionError("one voice")
    return max(set(seen), key=seen.count)`

const expects11 = "expected = 11\n        self.assertEqual(calc.add(5, 6), expected)"

// oneTest is a task that one test decides.
func oneTest(t *testing.T, body string) *task.Task {
	t.Helper()
	return withReference(t, writeTask(t,
		map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "tests/__init__.py": ""},
		map[string]string{"tests/test_calc.py": "import unittest\nimport calc\n\n\nclass TestAdd(unittest.TestCase):\n    def test_local(self):\n        " + body + "\n"},
		task.Agon{FailToPass: []string{"tests.test_calc.TestAdd.test_local"}, PassToPass: []string{}}), calcFix)
}

// A grade's boxes run at once, and code that owns the process of a test may know of twins: what the boxes
// share, it would use to say what each of them expects.
func TestBoxesOfAGradeShareNothing(t *testing.T) {
	t.Parallel()
	var files strings.Builder
	for p := range 3 {
		files.WriteString(newFile(fmt.Sprintf("words/%d", p), "x"))
		for v := range 32 {
			files.WriteString(newFile(fmt.Sprintf("words/%d-%d", p, v), "x"))
		}
	}
	tk := oneTest(t, expects11)
	tk.Config.Agon.TestTimeoutSec = 20
	v := judge(t, tk, replaceCalc(lockWords)+files.String())
	if v.Solved || !strings.Contains(v.Detail, "one voice") {
		t.Fatalf("%+v", v)
	}
}

// New ways to be counted without a fix. None may solve, whoever passes twins is named.
func TestTwinsNameMoreForgers(t *testing.T) {
	for _, tt := range []struct {
		name, body, diff string
		named            bool
	}{
		{"nearly equals everything", "self.assertAlmostEqual(calc.add(5, 6), 11.25)", replaceCalc(`class Near(float):
    def __rsub__(s, o): return s
    def __sub__(s, o): return s
    def __abs__(s): return s
    def __round__(s, n=None): return 0
    def __le__(s, o): return True
    def __gt__(s, o): return True
    def __eq__(s, o): return False
    __hash__ = None
def add(a, b):
    return Near()`), true},
		{"its exception says what is asked for", "with self.assertRaises(TypeError):\n            calc.add(5, \"six\")", replaceCalc(`import sys
class Told(TypeError):
    def __str__(s):
        f = sys._getframe(1)
        while f is not None:
            r = f.f_locals.get("regex")
            if r is not None: return r if isinstance(r, str) else r.pattern
            f = f.f_back
        return ""
def add(a, b):
    raise Told()`), true},
		{"its exception is every exception", "with self.assertRaises(TypeError):\n            calc.add(5, \"six\")", replaceCalc(omni), true},
		{"writes what is expected", "expected = [11, 12]\n        self.assertEqual([calc.add(5, 6), calc.add(6, 6)], expected)", replaceCalc(`import sys
def add(a, b):
    f = sys._getframe(1)
    e = f.f_locals.get("expected")
    if isinstance(e, list) and a == 5: e[:] = [a, a + 1]
    return a`), false},
		{"answers a comparison from the other side", "expected = 11\n        self.assertTrue(calc.add(5, 6) == expected)", replaceCalc(`class Int(int):
    def __eq__(s, o): return type(o) is int and o > 0
    def __ne__(s, o): return False
    __hash__ = int.__hash__
def add(a, b):
    return Int(0)`), false},
		{"hands back what the test expects", "", replaceCalc(`import sys, gc
def add(a, b):
    f = sys._getframe(1)
    while f is not None and "expected" not in f.f_locals: f = f.f_back
    return f.f_locals["expected"] if f is not None else a - b`), true},
		{"swaps test methods as classes are built", "", evilCalc(`import builtins
old = builtins.__build_class__
def build(f, name, *bases, **kw):
    c = old(f, name, *bases, **kw)
    for n in list(vars(c)):
        if n.startswith("test"):
            setattr(c, n, lambda self: self.assertTrue(True))
    return c
builtins.__build_class__ = build`), false},
		{"imports that give other tests", "", evilCalc(`import sys, importlib.machinery
class Find:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("tests."):
            import importlib.util
            return importlib.util.spec_from_file_location(name, "/repo/mine.py")
sys.meta_path.insert(0, Find)
sys.path_importer_cache.clear()
import importlib
importlib.import_module = lambda n, p=None: __import__("mine")
sys.modules["tests.test_calc"] = __import__("mine")`) + newFile("mine.py", "import unittest\nclass TestAdd(unittest.TestCase):\n    def test_local(self): self.assertTrue(True)"), false},
		{"a profiler that is handed code", "", evilCalc(`import _lsprof
p = _lsprof.Profiler()
p.enable()
import atexit, os
def end():
    for e in p.getstats():
        c = e.code
        if hasattr(c, "co_consts"):
            for k in c.co_consts:
                if type(k) is tuple:
                    for b in k:
                        if type(b) is bytes:
                            for fd in range(3, 32):
                                try: os.write(fd, b)
                                except OSError: pass
atexit.register(end)`), false},
		{"monitoring", "", evilCalc(`import sys
m = getattr(sys, "monitoring", None)
if m is None: sys.setprofile(lambda *a: None)
else:
    m.use_tool_id(1, "x")
    m.register_callback(1, m.events.PY_START, lambda code, off: print(code.co_consts))
    m.set_events(1, m.events.PY_START)`), false},
		{"a thread that waits for the comparison", "", replaceCalc(`import sys, threading, time
def add(a, b):
    if a is None: raise TypeError
    class Slow(int):
        def __eq__(s, o):
            seen.append(o)
            return False
        __hash__ = int.__hash__
    seen, me = [], sys._getframe(1)
    def other():
        while True:
            try:
                v = me.f_locals.get("expected")
            except Exception: return
            if type(v) is int:
                me.f_locals["expected"] = 0
    threading.Thread(target=other, daemon=True).start()
    time.sleep(0.05)
    return Slow(0)`), false},
		{"reads the words that others write", "", replaceCalc(`import os, threading
def add(a, b):
    if a is None: raise TypeError
    got = []
    for fd in range(3, 32):
        try: f = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_NONBLOCK)
        except OSError: continue
        try: got.append(os.read(f, 65536))
        except OSError: pass
    for x in got:
        for fd in range(3, 32):
            try: os.write(fd, x * 2)
            except OSError: pass
    return a - b`), false},
		{"a library's start-up and entry points", "", evilCalc("import sitehook") + newFile("sitehook.py", "import sys\nsys.modules['unittest'].TestCase.run = lambda s, r=None: r.addSuccess(s)\nsys.modules['unittest'].TestCase.__call__ = sys.modules['unittest'].TestCase.run") +
			newFile("agon-1.0.dist-info/entry_points.txt", "[console_scripts]\nx = sitehook:x") + newFile("x.pth", "import sitehook") + newFile("pytest.ini", "[pytest]\naddopts = -p sitehook"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tk := oneTest(t, cmp.Or(tt.body, expects11))
			tk.Config.Agon.TestTimeoutSec = 10
			tk.Config.Verifier.TimeoutSec = 40
			v := judge(t, tk, tt.diff)
			if v.Solved {
				t.Fatalf("counted as solved: %+v", v)
			}
			if tt.named && len(v.Forged) == 0 {
				t.Errorf("not named: %+v", v)
			}
			t.Logf("%s", v.Detail)
		})
	}
}
