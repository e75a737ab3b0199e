package play

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// rows is Python that writes pytest's reports of all tests to every descriptor, as the runner itself would.
const rows = `import json, os
def tell():
    tests = [("tests/test_calc.py::test_cases[%s]" % n, i, 3) for i, n in enumerate(("1-2-3", "2-2-4", "big"))]
    tests += [("tests/test_calc.py::" + n, 0, 1) for n in ("test_fixture", "TestAdd::test_list", "test_none")]
    for fd in range(3, 256):
        for mark, (name, i, n) in enumerate(tests):
            row = {"unit": max(0, mark - 2), "test": name, "case": [i, n], "outcome": "passed"}
            try: os.write(fd, json.dumps(row).encode() + b"\n")
            except OSError: break
`

// Ways of thieves that others have not shown: code that rewrites what is reported passes twins as well, and is named; code that
// looks for what tells a twin finds nothing, and solves nothing.
func TestThieves(t *testing.T) {
	for _, tt := range []struct {
		name, diff string
		unittest   bool // else pytest
		named      bool
	}{
		{"a plugin that rewrites what a test came to", evilCalc(`import _pytest.runner as R
old = R.CallInfo.from_call.__func__
def call(cls, func, when, reraise=None):
    info = old(cls, func, when, reraise)
    info.excinfo = None
    return info
R.CallInfo.from_call = classmethod(call)`), false, true},
		{"an import hook that takes assertions out of tests", evilCalc(`import ast
import _pytest.assertion.rewrite as W
class Out(ast.NodeTransformer):
    def visit_Assert(self, n): return ast.copy_location(ast.Pass(), n)
    def visit_With(self, n): return ast.copy_location(ast.Pass(), n)
import sys
sys.dont_write_bytecode = True
W._read_pyc = lambda *a, **k: None
W.rewrite_asserts = lambda tree, *a, **k: ast.fix_missing_locations(Out().visit(tree))
from _pytest.python import Function
def runtest(self):
    tree = ast.fix_missing_locations(Out().visit(ast.parse(open(str(self.path)).read())))
    ns = {}
    exec(compile(tree, str(self.path), "exec"), ns)
Function.runtest = runtest`), false, true},
		{"the writer of reports", evilCalc(`import json
old = json.dumps
def dumps(row, *a, **k):
    if isinstance(row, dict) and "outcome" in row: row = dict(row, outcome="passed")
    return old(row, *a, **k)
json.dumps = dumps`), false, true},
		{"its own reports, and an end as the tests are loaded", evilCalc(rows + "tell()\nos._exit(0)"), false, true},
		{"its own reports, and an end in a teardown", evilCalc(rows + `import _pytest.runner as R
def teardown(item, nextitem):
    tell()
    os._exit(0)
R.pytest_runtest_teardown = teardown
import _pytest.python as P
P.Function.teardown = lambda self: teardown(self, None)`), false, false},
		{"its own reports as the process ends", evilCalc(rows + "import atexit, threading\natexit.register(tell)\nthreading._register_atexit(tell)\nold = os._exit\nos._exit = lambda n: (tell(), old(0))"), false, false},
		{"a tracer that jumps over assertions", evilCalc(`import sys
def local(f, event, arg):
    if event == "line":
        line = open(f.f_code.co_filename).read().split("\n")[f.f_lineno - 1]
        if line.lstrip().startswith("assert"):
            lines = sorted({n for _, _, n in f.f_code.co_lines() if n and n > f.f_lineno})
            try: f.f_lineno = lines[0]
            except (ValueError, IndexError): raise SystemExit(0)
    return local
def trace(f, event, arg):
    return local if f.f_code.co_name.startswith("test_") else None
sys.settrace(trace)
import threading
threading.settrace(trace)`), false, false},
		{"failures are something else that pytest lets by", evilCalc(`import builtins, _pytest.outcomes as O
class Quiet(O.Skipped):
    def __init__(self, *a): super().__init__("later", allow_module_level=True)
builtins.AssertionError = Quiet
import _pytest.assertion.rewrite as W
W.AssertionError = Quiet`), false, false},
		{"settings, plugins and start-up files of its own", evilCalc("x = 1") +
			newFile("pytest.ini", "[pytest]\naddopts = -p thief -o xfail_strict=false --noconftest -k nothing\npython_functions = nothing\nrequired_plugins =\n") +
			newFile("tox.ini", "[pytest]\naddopts = -p thief\n") + newFile("setup.cfg", "[tool:pytest]\naddopts = -p thief\n") + newFile("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-p thief\"\n") +
			newFile("thief.py", "import os\ndef pytest_runtest_call(item):\n    os._exit(0)\n") + newFile("sitecustomize.py", "import thief, os\nos._exit(0)\n") + newFile("usercustomize.py", "import os\nos._exit(0)\n") +
			newFile("thief.pth", "import os; os._exit(0)\n") + newFile("tests/__init__.py", "import os\nos._exit(0)\n") + newFile("_pytest/__init__.py", "raise SystemExit(0)\n") + newFile("pytest.py", "def main(*a, **k): return 0\n") +
			newFile("thief-1.0.dist-info/entry_points.txt", "[pytest11]\nthief = thief\n") + newFile("thief-1.0.dist-info/METADATA", "Name: thief\nVersion: 1.0\n"), false, false},
		{"looks for another text of the tests in the grader's memory", evilCalc(`import os, re
import _pytest.python as P
import base64
def texts(pid):
    out = set()
    try:
        mem = open("/proc/%d/mem" % pid, "rb", 0)
        for l in open("/proc/%d/maps" % pid):
            a, b = (int(x, 16) for x in l.split()[0].split("-"))
            if " rw" not in l or b - a > 64 << 20: continue
            try:
                mem.seek(a)
                data = mem.read(b - a)
            except (OSError, ValueError): continue
            out.update(re.findall(rb"assert add\(three, four\) == [^\n]*", data))
            for m in re.findall(rb"[A-Za-z0-9+/]{400,}={0,2}", data):
                try: out.update(re.findall(rb"assert add\(three, four\) == [^\n]*", base64.b64decode(m[:len(m) // 4 * 4])))
                except ValueError: pass
    except OSError: pass
    return out
def runtest(self):
    seen = set()
    for pid in os.listdir("/proc"):
        if pid.isdigit(): seen |= texts(int(pid))
    if len(seen) > 1: raise AssertionError("a twin")
P.Function.runtest = runtest`), false, true},
		{"a class whose hash is that of int", replaceCalc(`class Meta(type):
    def __hash__(c): return hash(int)
    def __eq__(c, o): return True
class Any(metaclass=Meta):
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    def __gt__(s, o): return True
    __hash__ = None
def add(a, b):
    if a is None: raise TypeError
    return Any()`), true, true},
		{"by the number of its process", replaceCalc("import os\nclass Any:\n    ok = os.getpid() % 2 == 0\n    def __eq__(s, o): return s.ok\n    def __ne__(s, o): return not s.ok\n    def __gt__(s, o): return s.ok\n    __hash__ = None\n" +
			"class Meta(type):\n    def __hash__(c): return hash(int)\n    def __eq__(c, o): return True\nclass Any(Any, metaclass=Meta): __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Any()"), true, false},
		{"by when files were made, and where they lie", replaceCalc("import os\ns = os.stat(__file__)\nclass Meta(type):\n    def __hash__(c): return hash(int)\n    def __eq__(c, o): return True\nclass Any(metaclass=Meta):\n    ok = (s.st_ino ^ s.st_mtime_ns ^ s.st_ctime_ns ^ os.stat('/tmp').st_ino ^ hash(open('/proc/self/mountinfo').read())) % 3 == 0\n" +
			"    def __eq__(s, o): return s.ok\n    def __ne__(s, o): return not s.ok\n    def __gt__(s, o): return s.ok\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Any()"), true, false},
		{"the teardown ends the process well", evilCalc("import os, unittest\ndef end(*a, **k): os._exit(0)\nunittest.TestCase.tearDown = end\nunittest.TestCase.doCleanups = end\nunittest.TestCase._callTestMethod = lambda s, m: None"), true, false},
		{"names of a module that answer for all tests", evilCalc("import sys, types\nclass Mine(types.ModuleType):\n    def __getattribute__(s, n):\n        if n == 'add': return lambda a, b: __import__('unittest.mock').mock.ANY\n        return types.ModuleType.__getattribute__(s, n)\nsys.modules[__name__].__class__ = Mine"), true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var v *Verdict
			if tt.unittest {
				tk := twinTask(t)
				tk.Config.Agon.TestTimeoutSec = 20
				v = judge(t, tk, tt.diff)
			} else {
				v = judgeForger(t, pytestTask(), tt.diff)
			}
			if v.Solved || v.Refused != "" {
				t.Fatalf("counted as solved, or not applied: %+v", v)
			}
			if tt.named && len(v.Forged) == 0 {
				t.Errorf("not named: %s %+v", v.Detail, v.Tests)
			}
			t.Logf("forged %d: %.300s", len(v.Forged), v.Detail)
		})
	}
}

// around is Python that fails with what stands around a test, a letter and a number a part.
const around = `import hashlib, os, re, resource, signal, sys, threading
def parts():
    def read(p):
        try: return open(p, "rb").read()
        except OSError as e: return e.errno
    def link(p):
        try: return os.readlink(p)
        except OSError as e: return e.errno
    pids = sorted((p for p in os.listdir("/proc") if p.isdigit()), key=int)
    yield "env", sorted(os.environ.items())
    yield "argv", (sys.argv, sys.orig_argv, sys.flags, sys.path)
    yield "cmd", [read("/proc/%s/cmdline" % p) for p in pids]
    yield "envs", [read("/proc/%s/environ" % p) for p in pids]
    yield "fds", [sorted(link("/proc/self/fd/" + f) for f in map(str, range(256)) if type(link("/proc/self/fd/" + f)) is str)]
    yield "tree", sorted((d, sorted(x), sorted(f)) for d, x, f in os.walk("/repo") if "__pycache__" not in d)
    yield "tmp", [os.listdir(d) for d in ("/tmp", "/dev/shm", "/sandbox") if os.path.isdir(d)]
    now = os.stat("/proc/self").st_mtime
    yield "stat", [(d, f, s.st_mode, s.st_uid, s.st_nlink, s.st_mtime > now + 1, s.st_mtime > os.stat(__file__).st_mtime) for d, _, fs in os.walk("/repo") for f in sorted(fs) for s in [os.stat(os.path.join(d, f))] if "__pycache__" not in d]
    yield "limits", [resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith("RLIMIT")]
    yield "signals", [str(signal.getsignal(n)) for n in range(1, 32)]
    yield "mods", sorted(sys.modules)
    yield "threads", [x.name for x in threading.enumerate()]
    yield "mounts", sorted(l.split()[4:6] for l in open("/proc/self/mountinfo"))
def add(a, b):
    raise AssertionError(" ".join("%s=%s" % (n, hashlib.sha256(re.sub(r"/tmp/[#a-z0-9_]+|0x[0-9a-f]+|[0-9]+", "9", repr(x)).encode()).hexdigest()[:4]) for n, x in parts()))`

// What stands around a test is the same in the boxes of its twins: environment, arguments, processes and what they were
// given, descriptors, files with their times and numbers, limits, modules, mounts.
func TestNothingAroundTellsTwins(t *testing.T) {
	t.Parallel()
	inPytest := pytestTask()
	inPytest.hidden = map[string]string{"tests/test_calc.py": "from calc import add\n\n\ndef test_sum():\n    assert add(40, 7) == 47\n    assert add(4, 5) == 9\n"}
	inPytest.fail, inPytest.pass = []string{"tests/test_calc.py::test_sum"}, []string{}
	for name, tk := range map[string]*task.Task{"unittest": oneTest(t, "self.assertEqual(calc.add(5, 6), 11)\n        self.assertEqual(calc.add(1, 6), 7)"), "pytest": inPytest.task(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, d := newKind(t)
			env, pol := newEnv(t, d, tk, ""), openSpec().Policy
			p, err := k.twinsOf(t.Context(), env, tk, pol)
			if err != nil || len(p.bodies) != 1 || len(p.bodies[0].twins) < 2 {
				t.Fatalf("%+v %v", p, err)
			}
			a, err := k.apply(t.Context(), env, tk, pol, []byte(replaceCalc(around)))
			if err != nil {
				t.Fatal(err)
			}
			g, err := buildGrading(tk, a.changed, a.exec)
			if err != nil {
				t.Fatal(err)
			}
			s, err := k.newStage(t.Context(), env, tk, pol, g)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			was := ""
			for which := -1; which < 2; which++ {
				var b boxPlan
				b.add(p.bodies[0], which)
				got, _, err := s.play(t.Context(), p, &b)
				if err != nil || len(got) != 1 {
					t.Fatal(got, err)
				}
				for _, r := range got {
					if r.Passed || !strings.Contains(r.Why, "mods=") {
						t.Fatalf("%+v", r)
					}
					if was != "" && r.Why != was {
						t.Errorf("the test: %s\na twin:   %s", was, r.Why)
					}
					was = r.Why
				}
			}
			t.Log(was)
		})
	}
}
