package play

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// newFile is a diff that creates a file.
func newFile(name, text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,%d @@\n+%s\n", name, len(lines), strings.Join(lines, "\n+"))
}

// evilCalc is a diff that puts code in front of the unmended calc.py.
func evilCalc(code string) string {
	lines := strings.Split(strings.Trim(code, "\n"), "\n")
	return fmt.Sprintf("--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,%d @@\n+%s\n def add(a, b):\n     return a - b\n", len(lines)+2, strings.Join(lines, "\n+"))
}

// replaceCalc is a diff that replaces calc.py altogether.
func replaceCalc(code string) string {
	lines := strings.Split(strings.Trim(code, "\n"), "\n")
	return fmt.Sprintf("--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,%d @@\n-def add(a, b):\n-    return a - b\n+%s\n", len(lines), strings.Join(lines, "\n+"))
}

func judge(t *testing.T, tk *task.Task, diff string) *Verdict {
	t.Helper()
	k, d := newKind(t)
	e := newEnv(t, d, tk, "")
	v, err := k.JudgePatch(t.Context(), e, runSpec(), tk, []byte(diff))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestJudgeControls(t *testing.T) {
	t.Parallel()
	t.Run("oracle", func(t *testing.T) {
		t.Parallel()
		v := judge(t, calcTask(t), calcFix)
		if !v.Solved || v.Detail != "3/3 fail_to_pass, 1/1 pass_to_pass" || !v.Closed {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("nop", func(t *testing.T) {
		t.Parallel()
		v := judge(t, calcTask(t), "")
		if p, n := v.Count(FailToPass); v.Solved || p != 0 || n != 3 {
			t.Fatalf("%+v", v)
		}
		if p, n := v.Count(PassToPass); p != 1 || n != 1 {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("scores", func(t *testing.T) {
		t.Parallel()
		k, d := newKind(t)
		tk := calcTask(t)
		r := runSpec()
		s, err := k.Judge(t.Context(), newEnv(t, d, tk, ""), r, agon.Record{Outcome: agon.OutcomeOK, Files: map[string][]byte{FilePatch: []byte(calcFix)}})
		if err != nil || len(s) != 1 || !s[0].Solved || s[0].Value != 1 || s[0].Metrics["fail_to_pass"] != 3 || s[0].Metrics["patch_bytes"] != float64(len(calcFix)) {
			t.Fatalf("%+v, %v", s, err)
		}
		r.Tasks[0].Hidden = true
		s, err = k.Judge(t.Context(), newEnv(t, d, tk, ""), r, agon.Record{Outcome: agon.OutcomeOK, Files: map[string][]byte{FilePatch: []byte(evilCalc("x = 1"))}})
		if err != nil || s[0].Solved || s[0].Value != 0 || strings.Contains(s[0].Detail, "test_") {
			t.Fatalf("%+v, %v", s, err)
		}
		s, err = k.Judge(t.Context(), newEnv(t, d, tk, ""), r, agon.Record{Outcome: agon.OutcomeEmpty})
		if err != nil || s[0].Value != 0 || s[0].Detail != "no patch: the agent changed nothing" {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// A grader that cannot start gives no score.
func TestJudgeBrokenTask(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]task.Agon{
		"no such test":   {FailToPass: []string{"tests.test_calc.TestAdd.test_nothing"}},
		"no such module": {FailToPass: []string{"tests.test_none.TestAdd.test_add"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, d := newKind(t)
			tk := calcTask(t)
			tk.Config.Agon.FailToPass = cfg.FailToPass
			if v, err := k.JudgePatch(t.Context(), newEnv(t, d, tk, ""), runSpec(), tk, []byte(calcFix)); err == nil {
				t.Fatalf("%+v", v)
			}
		})
	}
}

// Patches that try to be counted as solved without mending anything.
func TestJudgeCheats(t *testing.T) {
	const forge = `
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return True
    def __hash__(self): return 0
    def __bool__(self): return True
    def __iter__(self): return iter(())
`
	tests := []struct{ name, diff string }{
		{"edits the tests", "--- a/tests/test_calc.py\n+++ b/tests/test_calc.py\n@@ -1,2 +1,3 @@\n+raise SystemExit(0)\n import unittest\n import calc\n"},
		{"deletes the tests", deleteTests},
		{"adds a conftest and start-up files", newFile("conftest.py", "import os\nos._exit(0)\n") + newFile("sitecustomize.py", "import os\nos._exit(0)\n") + newFile("usercustomize.py", "print('OK')\n") + newFile("x.pth", "import os; os._exit(0)\n")},
		{"shadows the standard library", newFile("unittest/__init__.py", "class TestCase: pass\ndef main(): print('OK')\n") + newFile("json.py", "raise SystemExit(0)\n") + newFile("re.py", "raise SystemExit(0)\n")},
		{"evil package around the tests", "--- a/tests/__init__.py\n+++ b/tests/__init__.py\n@@ -0,0 +1 @@\n+import os; os._exit(0)\n"},
		{"fake prints", evilCalc("import sys\nfor s in (sys.__stdout__, sys.__stderr__):\n    print('Ran 4 tests in 0.001s', 'OK', 'PASSED', file=s)\n    s.flush()\nimport os\nfor fd in range(3, 64):\n    try: os.write(fd, b'PASSED\\nOK\\nend [0, \"exit 0\"]\\nnote [0, \"ok\"]\\n')\n    except OSError: pass")},
		{"os._exit(0)", evilCalc("import os\nos._exit(0)")},
		{"sys.exit(0)", evilCalc("import sys\nsys.exit(0)")},
		{"exits from a call", replaceCalc("import os\ndef add(a, b):\n    os._exit(0)")},
		{"raises SystemExit from a call", replaceCalc("def add(a, b):\n    raise SystemExit(0)")},
		{"skips", replaceCalc("import unittest\ndef add(a, b):\n    raise unittest.SkipTest('later')")},
		{"atexit", evilCalc("import atexit, os\natexit.register(os._exit, 0)")},
		{"patched unittest", evilCalc(`
import unittest
for n in dir(unittest.TestCase):
    if n.startswith('assert'):
        setattr(unittest.TestCase, n, lambda *a, **k: None)
unittest.TestCase.run = lambda self, result=None: result.addSuccess(self)
unittest.TestResult.addFailure = unittest.TestResult.addError = lambda *a: None`)},
		{"patched while it counts, put back after", replaceCalc(`
import unittest, sys
KEPT = {n: unittest.TestCase.__dict__[n] for n in dir(unittest.TestCase) if n.startswith('assert') and n in unittest.TestCase.__dict__}
def back(*a, **k):
    for n, f in KEPT.items(): setattr(unittest.TestCase, n, f)
def add(a, b):
    for n in KEPT: setattr(unittest.TestCase, n, back)
    return 0`)},
		{"replaced test methods", replaceCalc(`
import sys, unittest
def add(a, b):
    for m in list(sys.modules.values()):
        for c in list(getattr(m, '__dict__', {}).values()):
            if isinstance(c, type) and issubclass(c, unittest.TestCase):
                for n in dir(c):
                    if n.startswith(('test', 'assert', 'fail')):
                        try: setattr(c, n, lambda *a, **k: None)
                        except Exception: pass
    return 0
def hook(*a, **k):
    cls = build(*a, **k)
    if issubclass(cls, unittest.TestCase):
        for n in list(vars(cls)):
            if n.startswith('test'): setattr(cls, n, lambda self: None)
    return cls
import builtins
build = builtins.__build_class__
builtins.__build_class__ = hook`)},
		{"builtins", evilCalc("import builtins\nbuiltins.AssertionError = type('Quiet', (BaseException,), {})\nbuiltins.isinstance = lambda *a: True\nbuiltins.len = lambda *a: 0")},
		{"equals everything", replaceCalc(forge + "def add(a, b):\n    if a is None: raise TypeError\n    return Any()")},
		{"equals everything and walks frames", replaceCalc(`
import sys
class Any:
    def __eq__(self, other):
        f = sys._getframe(1)
        while f:
            for ns in (f.f_globals, f.f_builtins):
                for n in ('same', 'claims', 'decoys', 'AssertionError', 'shown'):
                    ns[n] = lambda *a, **k: True
            for v in list(f.f_locals.values()):
                try: v.clear()
                except Exception: pass
            f = f.f_back
        return True
def add(a, b): return Any()`)},
		{"knows the row by its frames", replaceCalc(`
import sys
class Any:
    def __eq__(self, other):
        f = sys._getframe()
        while f:
            if 'plain' in f.f_locals: return other is f.f_locals['plain']
            f = f.f_back
        return True
def add(a, b): return Any()`)},
		{"knows the row by a signal", replaceCalc(`
import signal
class Any:
    def __eq__(self, other):
        seen = []
        def handler(n, f):
            while f:
                if 'plain' in f.f_locals: seen.append(other is f.f_locals['plain'])
                f = f.f_back
        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)
        return seen[0] if seen else True
def add(a, b): return Any()`)},
		{"knows the row by a fresh signal module", replaceCalc(`
import importlib.util, importlib.machinery
s = importlib.machinery.BuiltinImporter.find_spec('_signal')
signal = importlib.util.module_from_spec(s)
class Any:
    def __eq__(self, other):
        seen = []
        def handler(n, f):
            while f:
                if 'plain' in f.f_locals: seen.append(other is f.f_locals['plain'])
                f = f.f_back
        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)
        return seen[0] if seen else True
def add(a, b): return Any()`)},
		{"knows the row by a traceback", replaceCalc(`
class Any:
    def __eq__(self, other):
        try:
            raise ValueError
        except ValueError as e:
            f = e.__traceback__.tb_frame
        while f:
            if 'plain' in f.f_locals: return other is f.f_locals['plain']
            f = f.f_back
        return True
def add(a, b): return Any()`)},
		{"reads the test's constants", replaceCalc(`
import sys, os
def add(a, b):
    f = sys._getframe(1)
    for c in f.f_code.co_consts:
        if callable(c):
            try: c()
            except Exception: pass
    return 0`)},
		{"reads the test's constants through a class", replaceCalc(`
import sys
def calls(code):
    for c in code.co_consts:
        if hasattr(c, 'co_consts'): calls(c)
        elif callable(c):
            try: c()
            except Exception: pass
def add(a, b):
    for m in list(sys.modules.values()):
        t = getattr(m, 'TestAdd', None)
        if t:
            for v in vars(t).values():
                if hasattr(v, '__code__'): calls(v.__code__)
    return 0`)},
		{"frames of the runner", replaceCalc(`
import sys
def add(a, b):
    f = sys._getframe()
    while f:
        for k, v in list(f.f_locals.items()):
            if k == 'result':
                v.notes.clear(); v.__class__.addFailure = lambda *a: None; v.__class__.addError = lambda *a: None
            if callable(v) and k in ('integrity', 'note'):
                pass
        f = f.f_back
    return 0`)},
		{"walks the heap", evilCalc("import gc\nfor o in gc.get_objects():\n    if type(o) is tuple and len(o) == 2: print(o)")},
		{"settrace", evilCalc("import sys\nsys.settrace(lambda f, e, a: None)")},
		{"reads its own memory", evilCalc("import re\nfor p in ('/proc/self/mem', '/proc/thread-self/mem'):\n    open(p, 'rb')")},
		{"reads its parent's memory from a child", evilCalc("import subprocess, sys\nsubprocess.run(['/usr/bin/python3', '-c', 'import os; os.open(\"/proc/%d/mem\" % os.getppid(), os.O_RDWR)'], check=True)")},
		{"ctypes", evilCalc("import ctypes\nctypes.string_at(0)")},
		{"ctypes by its file", evilCalc("import importlib.util as u, glob\ns = u.spec_from_file_location('_ctypes', glob.glob('/usr/lib/python3*/lib-dynload/_ctypes.*')[0])\nm = u.module_from_spec(s)")},
		{"ctypes copied elsewhere", evilCalc("import importlib.util as u, glob, shutil\nshutil.copy(glob.glob('/usr/lib/python3*/lib-dynload/_ctypes.*')[0], '/tmp/foo.so')\ns = u.spec_from_file_location('foo', '/tmp/foo.so')\nm = u.module_from_spec(s)")},
		{"reads the hidden tests", evilCalc("import glob\nassert [open(p).read() for p in glob.glob('/repo/tests/*.py')], 'not there'\nimport os\nos._exit(0)")},
		{"kills the runner", evilCalc("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")},
		{"kills everything", evilCalc("import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and int(p) != os.getpid():\n        try: os.kill(int(p), 9)\n        except OSError: pass")},
		{"a child that writes on", evilCalc("import os, time\nif os.fork() == 0:\n    os.setsid()\n    for fd in range(3, 32):\n        try: os.write(fd, b'end [0, \"exit 0\"]\\n' * 10)\n        except OSError: pass\n    time.sleep(30)\n    os._exit(0)")},
		{"floods the report", evilCalc("import os\nfor fd in range(3, 32):\n    try:\n        for _ in range(800): os.write(fd, b'x' * 65536)\n    except OSError: pass")},
		{"never ends", replaceCalc("def add(a, b):\n    while True: pass")},
		{"uses the loader", evilCalc(`
import sys
class Fake:
    __name__ = 'tests.test_calc'
    n = 0
    @property
    def __dict__(self):
        return {'__builtins__': __builtins__, '__name__': 'x'}
for f in list(sys.meta_path):
    s = f.find_spec('tests.test_calc', None)
    if s:
        s.loader.exec_module(Fake())`)},
		{"removes the finder", evilCalc("import sys, importlib\nsys.meta_path.pop(0)\nfor n in [n for n in sys.modules if n.startswith('tests')]: del sys.modules[n]")},
		{"turns the tests into a file", "diff --git a/tests/__init__.py b/tests/__init__.py\ndeleted file mode 100644\ndiff --git a/tests/test_calc.py b/tests/test_calc.py\ndeleted file mode 100644\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tk := calcTask(t)
			tk.Config.Agon.TestTimeoutSec = 2
			tk.Config.Verifier.TimeoutSec = 20
			v := judge(t, tk, tt.diff)
			if v.Solved {
				t.Fatalf("counted as solved: %+v", v)
			}
			if p, _ := v.Count(FailToPass); p != 0 {
				t.Errorf("%d tests that fail were counted: %+v", p, v.Tests)
			}
			t.Logf("%s %+v", v.Detail, v.Tests)
		})
	}
}

var deleteTests = `diff --git a/tests/__init__.py b/tests/__init__.py
deleted file mode 100644
`

// Mended trees stay mended whatever else the patch does to the tests.
func TestJudgeProtects(t *testing.T) {
	edit := "--- a/tests/test_calc.py\n+++ b/tests/test_calc.py\n@@ -1,2 +1,3 @@\n+raise SystemExit(0)\n import unittest\n import calc\n"
	for name, diff := range map[string]string{
		"tests edited":  calcFix + edit,
		"tests added":   calcFix + newFile("tests/test_more.py", "raise SystemExit(1)\n"),
		"init deleted":  calcFix + deleteTests,
		"shadow of re":  calcFix + newFile("re.py", "raise SystemExit(1)\n"),
		"prose around":  "Here you are:\n\n" + calcFix + "\nBye\n",
		"new file used": calcFix + newFile("more/__init__.py", "x = 1\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := judge(t, calcTask(t), diff); !v.Solved {
				t.Fatalf("%+v", v)
			}
		})
	}
}

// What ordinary tests of published packages do must work.
func TestJudgeOrdinaryTests(t *testing.T) {
	t.Parallel()
	test := `import asyncio
import decimal
import os
import tempfile
import unittest
import warnings
from collections import OrderedDict, namedtuple
from unittest import mock

import pkg
import queue
import sched
from pkg import thing
from .helpers import Base


def setUpModule():
    global READY
    READY = True


class TestAll(Base):
    @classmethod
    def setUpClass(cls):
        cls.shared = [1]

    def setUp(self):
        self.addCleanup(setattr, self, "x", 1)

    def test_helper(self):
        self.assertDouble(thing.double(2), 4)

    def test_many_asserts(self):
        self.assertEqual({"a": [1, (2, 3)]}, {"a": [1, (2, 3)]})
        self.assertEqual(OrderedDict(a=1), {"a": 1})
        self.assertEqual(thing.Point(1, 2), thing.Point(1, 2))
        self.assertNotEqual(thing.Point(1, 2), thing.Point(1, 3))
        self.assertEqual(float("nan") != 1, True)
        self.assertAlmostEqual(0.1 + 0.2, 0.3)
        self.assertCountEqual([1, 2, 2], [2, 1, 2])
        self.assertIn(1, {1: 2})
        self.assertNotIn(3, range(3))
        self.assertIs(None, None)
        self.assertTrue(READY and self.shared)
        self.assertTrue(sched.OURS and queue.OURS)
        self.assertGreater(decimal.Decimal("2"), 1)
        self.assertRegex("abc", "b")
        self.assertIsInstance(thing.double(1), int)
        self.assertListEqual([1], [1])
        self.assertMultiLineEqual("a\n", "a\n")
        self.assertSequenceEqual((1, 2), [1, 2])
        with self.assertRaises(ValueError) as cm:
            int("x")
        self.assertIn("invalid", str(cm.exception))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            1 / 0
        self.assertRaises(TypeError, thing.double, None)
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(thing.double(i), 2 * i)

    @mock.patch("pkg.thing.double", return_value=7)
    def test_mock(self, double):
        self.assertEqual(thing.double(1), 7)
        double.assert_called_once_with(1)
        self.assertEqual(double.call_args_list, [mock.call(1)])
        self.assertEqual({"x": thing.double}, {"x": mock.ANY})

    def test_logs_and_warnings(self):
        with self.assertLogs("pkg", level="WARNING") as cm:
            pkg.log("hi")
        self.assertEqual(cm.output, ["WARNING:pkg:hi"])
        with self.assertWarns(DeprecationWarning):
            warnings.warn("old", DeprecationWarning)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pkg.old()
        self.assertEqual(len(caught), 1)

    def test_files(self):
        with tempfile.TemporaryDirectory() as d:
            p = os.path.join(d, "x")
            with open(p, "w") as f:
                f.write("x")
            self.assertTrue(os.path.exists(p))
        with open(os.path.join(os.path.dirname(__file__), "data.txt")) as f:
            self.assertEqual(f.read(), "data\n")

    def test_early_return(self):
        self.assertEqual(1, 1)
        if READY:
            return
        self.fail("not reached")

    def test_traceback(self):
        self.assertIn("ZeroDivisionError", pkg.trace())

    def test_namedtuple(self):
        T = namedtuple("T", "a b")
        self.assertEqual(T(1, 2), (1, 2))
        assert T(1, 2).a == 1

    def test_nothing_asserted(self):
        thing.double(1)


class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_await(self):
        await asyncio.sleep(0)
        self.assertEqual(await pkg.soon(), 1)


class TestOutput(unittest.TestCase):
    def test_print(self):
        print("noise" * 100000)

    def test_log_from_test(self):
        pkg.log("x")
        self.assertTrue(True)
`
	names := []string{
		"TestAll.test_helper", "TestAll.test_inherited", "TestAll.test_many_asserts", "TestAll.test_mock", "TestAll.test_logs_and_warnings",
		"TestAll.test_files", "TestAll.test_early_return", "TestAll.test_traceback", "TestAll.test_namedtuple", "TestAll.test_nothing_asserted",
		"TestAsync.test_await", "TestOutput.test_print", "TestOutput.test_log_from_test",
	}
	var ids []string
	for _, n := range names {
		ids = append(ids, "tests.test_all."+n)
	}
	tk := writeTask(t,
		map[string]string{
			"src/pkg/__init__.py":   "import logging, traceback, warnings\nfrom . import thing\n\ndef old():\n    warnings.warn('x', DeprecationWarning, stacklevel=2)\n\nasync def soon():\n    return 1\n\ndef trace():\n    try:\n        1 / 0\n    except Exception:\n        return traceback.format_exc()\n\ndef log(s):\n    logging.getLogger('pkg').warning(s)\n",
			"src/sched/__init__.py": "OURS = True\n",
			"src/queue.py":          "OURS = True\n",
			"src/pkg/thing.py":      "class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, o):\n        return (self.x, self.y) == (o.x, o.y)\n\ndef double(x):\n    return x + x\n",
		},
		map[string]string{
			"tests/test_all.py": test,
			"tests/data.txt":    "data\n",
			"tests/helpers.py":  "import unittest\n\nclass Base(unittest.TestCase):\n    def assertDouble(self, a, b):\n        self.assertEqual(a, b)\n\n    def test_inherited(self):\n        self.assertTrue(True)\n",
		},
		task.Agon{PassToPass: ids, PythonPath: []string{"", "src"}})
	v := judge(t, tk, "")
	for _, r := range v.Tests {
		if !r.Passed {
			t.Errorf("%s: %s", r.ID, r.Why)
		}
	}
}

func TestBuildGrading(t *testing.T) {
	tk := calcTask(t)
	if err := os.Symlink("calc.py", filepath.Join(tk.Dir, "repo", "alias.py")); err != nil {
		t.Fatal(err)
	}
	g, err := buildGrading(tk, map[string][]byte{"calc.py": []byte("new\n"), "data.log": nil, "tests/x.py": []byte("evil"), "tests/__init__.py": nil}, map[string]bool{"calc.py": true})
	if err != nil {
		t.Fatal(err)
	}
	if f := g.tree["calc.py"]; string(f.data) != "new\n" || f.mode != 0o755 {
		t.Errorf("calc.py %+v", f)
	}
	if _, ok := g.tree["data.log"]; ok {
		t.Error("data.log should be gone")
	}
	if g.tree["alias.py"].link != "calc.py" {
		t.Error("the link is lost")
	}
	if len(g.modules) != 2 || !strings.Contains(string(g.modules["tests/test_calc.py"]), "calc.add(2, 3)") {
		t.Errorf("modules %v", g.modules)
	}
	dir := t.TempDir()
	if err := g.write(dir); err != nil {
		t.Fatal(err)
	}
	if l, err := os.Readlink(filepath.Join(dir, "alias.py")); err != nil || l != "calc.py" {
		t.Errorf("%q, %v", l, err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "tests")); err != nil || len(entries) != 0 {
		t.Errorf("tests holds %v, %v", entries, err)
	}
}
