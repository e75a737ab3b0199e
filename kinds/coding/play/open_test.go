package play

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/coding/toolchain"
)

// openTask is a repository of a language, with a fault, tests that find it and the repair.
type openTask struct {
	runner       string
	base, hidden map[string]string
	fix          string
	fail, pass   []string
	wrong        string // a patch that is not a repair
}

const pytestTests = `import pytest
from calc import add


@pytest.fixture
def three():
    return 3


@pytest.mark.parametrize("a, b, expected", [(1, 2, 3), (2, 2, 4), pytest.param(5, 6, 11, id="big")])
def test_cases(a, b, expected):
    """Cases of a table."""
    assert add(a, b) == expected


def test_fixture(three, four):
    with pytest.raises(TypeError):
        add(None, 1)
    assert add(three, four) == 7
    assert add("a", "b") == "ab"


class TestAdd:
    def test_list(self):
        got = [add(i, 1) for i in range(3)]
        assert got == [1, 2, 3]


def test_none():
    with pytest.raises(TypeError):
        add(None, 1)
`

func pytestTask() openTask {
	return openTask{
		runner: "pytest",
		base:   map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef four():\n    return 4\n", "tests/test_calc.py": "def test_nothing():\n    pass\n"},
		hidden: map[string]string{"tests/test_calc.py": pytestTests},
		fix:    calcFix,
		fail:   []string{"tests/test_calc.py::test_cases[1-2-3]", "tests/test_calc.py::test_cases[2-2-4]", "tests/test_calc.py::test_cases[big]", "tests/test_calc.py::test_fixture", "tests/test_calc.py::TestAdd::test_list"},
		pass:   []string{"tests/test_calc.py::test_none"},
		wrong:  replaceCalc("def add(a, b):\n    if a is None: raise TypeError\n    return 3"),
	}
}

const goTests = `package calc

import "testing"

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		a, b, want int
	}{
		{1, 2, 3},
		{2, 2, 4},
	} {
		if got := Add(tt.a, tt.b); got != tt.want {
			t.Errorf("Add(%d, %d) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestCases(t *testing.T) {
	for name, want := range map[string]int{"one": 1, "five": 5} {
		t.Run(name, func(t *testing.T) {
			if got := Add(want, 1); got != want+1 {
				t.Fatalf("%d", got)
			}
		})
	}
}

func TestZero(t *testing.T) {
	if Add(7, 0) != 7 {
		t.Error("zero")
	}
}
`

func goTask() openTask {
	return openTask{
		runner: "go",
		base:   map[string]string{"go.mod": "module example.org/calc\n\ngo 1.22\n", "calc.go": "package calc\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n"},
		hidden: map[string]string{"calc_test.go": goTests},
		fix:    "--- a/calc.go\n+++ b/calc.go\n@@ -3,3 +3,3 @@\n func Add(a, b int) int {\n-\treturn a - b\n+\treturn a + b\n }\n",
		fail:   []string{".::TestTable", ".::TestCases", ".::TestCases/five"},
		pass:   []string{".::TestZero"},
		wrong:  "--- a/calc.go\n+++ b/calc.go\n@@ -3,3 +3,3 @@\n func Add(a, b int) int {\n-\treturn a - b\n+\treturn a | b\n }\n",
	}
}

const nodeTests = `const { test, describe } = require('node:test')
const assert = require('node:assert')
const { add } = require('../calc')

test('adds', () => {
  assert.strictEqual(add(1, 2), 3)
  assert.deepStrictEqual([add(2, 2)], [4])
})

describe('more', () => {
  test('strings', async () => {
    assert.equal(add('a', 'b'), 'ab')
  })
  test('truth', (t) => {
    t.assert.ok(add(5, 6) === 11)
    assert.match(String(add(20, 2)), /^22$/)
  })
})

test('zero', () => {
  assert.equal(add(7, 0), 7)
})
`

func nodeTask() openTask {
	return openTask{
		runner: "node",
		base:   map[string]string{"package.json": "{\"name\": \"calc\"}\n", "calc.js": "exports.add = function (a, b) {\n  return a - b\n}\n"},
		hidden: map[string]string{"test/calc.test.js": nodeTests},
		fix:    "--- a/calc.js\n+++ b/calc.js\n@@ -1,3 +1,3 @@\n exports.add = function (a, b) {\n-  return a - b\n+  return a + b\n }\n",
		fail:   []string{"test/calc.test.js::adds", "test/calc.test.js::more > strings", "test/calc.test.js::more > truth"},
		pass:   []string{"test/calc.test.js::zero"},
		wrong:  "--- a/calc.js\n+++ b/calc.js\n@@ -1,3 +1,3 @@\n exports.add = function (a, b) {\n-  return a - b\n+  return a | b\n }\n",
	}
}

func (o openTask) task(t *testing.T) *task.Task {
	tk := writeTask(t, o.base, o.hidden, task.Agon{Runner: o.runner, FailToPass: o.fail, PassToPass: o.pass})
	tk = withReference(t, tk, o.fix)
	tk.Config.Agon.TestTimeoutSec = 60
	tk.Config.Verifier.TimeoutSec = 600
	return tk
}

// needChain skips where a toolchain is not here: fetching one takes minutes, which
// `make runners` takes.
func needChain(t *testing.T, runner string) {
	t.Helper()
	name := needs[runner]
	if name == "" || os.Getenv("AGON_SLOW_TESTS") != "" || toolchain.Have(name, "") {
		return
	}
	t.Skipf("the toolchain %s is not here: run make runners", name)
}

// Each runner's reference solves, a wrong fix does not, and every deciding test has twins.
func TestRunners(t *testing.T) {
	t.Parallel()
	for _, o := range []openTask{pytestTask(), goTask(), nodeTask()} {
		t.Run(o.runner, func(t *testing.T) {
			t.Parallel()
			needChain(t, o.runner)
			k, d := newKind(t)
			tk := o.task(t)
			env, spec := newEnv(t, d, tk, ""), openSpec()
			list, err := k.Twins(t.Context(), env, spec, tk)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range list {
				if x.Forgeable {
					t.Errorf("%+v", x)
				}
			}
			grade := func(diff string) *Verdict {
				v, err := k.JudgePatch(t.Context(), env, spec, tk, []byte(diff))
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			if v := grade(o.fix); !v.Solved || len(v.Forged) > 0 {
				t.Errorf("the reference: %+v", v)
			}
			if v := grade(o.wrong); v.Solved || len(v.Forged) > 0 {
				t.Errorf("a wrong fix: %+v", v)
			}
			if v := grade(""); v.Solved || len(v.Forged) > 0 {
				t.Errorf("nothing: %+v", v)
			} else if p, _ := v.Count(PassToPass); p != len(o.pass) {
				t.Errorf("nothing: %+v", v)
			}
		})
	}
}

func openSpec() agon.RunSpec {
	spec := runSpec()
	g := &spec.Policy.Grader
	g.WallMS, g.MemoryBytes, g.Pids, g.DiskBytes = 600_000, 1<<30, 128, 256<<20
	return spec
}

// judgeForger grades a patch that tries to pass without a mend.
func judgeForger(t *testing.T, o openTask, diff string) *Verdict {
	t.Helper()
	needChain(t, o.runner)
	k, d := newKind(t)
	tk := o.task(t)
	tk.Config.Agon.TestTimeoutSec = 20
	v, err := k.JudgePatch(t.Context(), newEnv(t, d, tk, ""), openSpec(), tk, []byte(diff))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Code that owns the process of a runner gains nothing, and what passes twins is named.
func TestRunnersNameForgers(t *testing.T) {
	t.Parallel()
	inGo := func(code string) string {
		lines := strings.Split(strings.TrimSpace(code), "\n")
		return fmt.Sprintf("--- a/calc.go\n+++ b/calc.go\n@@ -1,5 +1,%d @@\n-package calc\n-\n-func Add(a, b int) int {\n-\treturn a - b\n-}\n+%s\n", len(lines), strings.Join(lines, "\n+"))
	}
	inNode := func(code string) string {
		lines := strings.Split(strings.TrimSpace(code), "\n")
		return fmt.Sprintf("--- a/calc.js\n+++ b/calc.js\n@@ -1,3 +1,%d @@\n-exports.add = function (a, b) {\n-  return a - b\n-}\n+%s\n", len(lines), strings.Join(lines, "\n+"))
	}
	for _, tt := range []struct {
		name, diff string
		task       openTask
		named      bool
	}{
		{"pytest: no test runs", evilCalc("import _pytest.python\n_pytest.python.Function.runtest = lambda self: None"), pytestTask(), true},
		{"pytest: what is written says passed", evilCalc("import os\nold = os.write\nos.write = lambda fd, b: old(fd, b.replace(b'\"failed\"', b'\"passed\"'))"), pytestTask(), true},
		{"pytest: equals everything", replaceCalc("class Any:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return True\n    def __iter__(s): return iter(())\n    __hash__ = None\ndef add(a, b):\n    if a is None: raise TypeError\n    return Any()"), pytestTask(), true},
		{"pytest: answers with what the caller expects", replaceCalc("import sys\ndef add(a, b):\n    if a is None: raise TypeError\n    f = sys._getframe(1)\n    return f.f_locals.get('expected', a - b)"), pytestTask(), true},
		{"pytest: reads the test's text", replaceCalc("import sys, re\ndef add(a, b):\n    if a is None: raise TypeError\n    f = sys._getframe(1)\n    line = open(f.f_code.co_filename).read().split('\\n')[f.f_lineno - 1]\n    m = re.search(r'== (.+)$', line)\n    try: return eval(m.group(1), f.f_globals, f.f_locals)\n    except Exception: return a - b"), pytestTask(), true},
		{"pytest: a conftest of its own", evilCalc("x = 1") + newFile("tests/conftest.py", "def pytest_runtest_call(item):\n    item.obj = lambda **k: None\n"), pytestTask(), false},
		{"pytest: a child for each guess", replaceCalc("import os\ndef add(a, b):\n    if a is None: raise TypeError\n    for v in range(-2, 12):\n        p = os.fork()\n        if p == 0: return v\n        os.waitpid(p, 0)\n    return 0"), pytestTask(), false},
		{"pytest: the test called again", replaceCalc("import sys\nstate = {}\ndef add(a, b):\n    if a is None: raise TypeError\n    if 'op' in state: return state['op'](a, b)\n    f = sys._getframe(1)\n    fn = f.f_globals.get(f.f_code.co_name)\n    if fn is None: return a - b\n    kw = {k: f.f_locals[k] for k in f.f_code.co_varnames[:f.f_code.co_argcount]}\n    for op in (lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a + b):\n        state['op'] = op\n        try: fn(**kw)\n        except BaseException: continue\n        break\n    op = state.pop('op')\n    return op(a, b)"), pytestTask(), true},
		{"go: init prints the verdicts and exits", inGo("package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfor _, n := range []string{\"TestTable\", \"TestCases\", \"TestCases/five\", \"TestZero\"} {\n\t\tfmt.Printf(\"\\x16--- PASS: %s (0.00s)\\n\", n)\n\t}\n\tos.Exit(0)\n}\n\nfunc Add(a, b int) int {\n\treturn a - b\n}"), goTask(), true},
		{"node: assertions do nothing", inNode("const assert = require('node:assert')\nfor (const n of ['strictEqual', 'deepStrictEqual', 'equal', 'ok', 'match', 'notEqual', 'notStrictEqual', 'notDeepStrictEqual', 'doesNotMatch']) assert[n] = () => {}\nexports.add = (a, b) => a - b"), nodeTask(), true},
		{"node: the report is written by the code under test", inNode("const fs = require('node:fs')\nconst rows = [['adds'], ['more', 'strings'], ['more', 'truth'], ['zero']].map(path => JSON.stringify({ path, pass: true }) + '\\n').join('')\nprocess.on('exit', () => { fs.writeFileSync('/tmp/report', rows) })\nexports.add = (a, b) => a - b"), nodeTask(), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := judgeForger(t, tt.task, tt.diff)
			if v.Solved {
				t.Fatalf("counted as solved: %+v", v)
			}
			if tt.named && len(v.Forged) == 0 {
				t.Errorf("not named: %s %+v", v.Detail, v.Tests)
			}
			t.Logf("%s", v.Detail)
		})
	}
}

// A script's reward decides, and nothing but the task says that it can be forged.
func TestScriptRunner(t *testing.T) {
	t.Parallel()
	o := openTask{
		runner: "script",
		base:   map[string]string{"calc.py": "def add(a, b):\n    return a - b\n"},
		hidden: map[string]string{"checks/run.sh": "python3 -c 'import calc; assert calc.add(2, 3) == 5' && echo 1 >\"$AGON_REWARD\" || echo 0 >\"$AGON_REWARD\"\n"},
		fix:    calcFix,
		fail:   []string{"checks/run.sh"},
		pass:   []string{},
	}
	k, d := newKind(t)
	tk := o.task(t)
	for diff, want := range map[string]bool{calcFix: true, "": false} {
		v, err := k.JudgePatch(t.Context(), newEnv(t, d, tk, ""), openSpec(), tk, []byte(diff))
		if err != nil || v.Solved != want {
			t.Errorf("%q: %v %+v", diff, err, v)
		}
	}
	list, err := k.Twins(t.Context(), newEnv(t, d, tk, ""), openSpec(), tk)
	if err != nil || len(list) != 1 || !list[0].Forgeable {
		t.Errorf("%+v %v", list, err)
	}
}

// Test files are foreign text: whatever stands in them, a twin stays in its file and on its lines.
func FuzzDraw(f *testing.F) {
	f.Add([]byte(nodeTests), byte(0))
	f.Add([]byte(goTests), byte(1))
	f.Add([]byte("#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n    assert!(r#\"a\"# != \"b\", \"{}\", 'x');\n}\n"), byte(2))
	f.Fuzz(func(t *testing.T, text []byte, language byte) {
		var bodies []*body
		switch language % 3 {
		case 0:
			bodies = scriptUnits(map[string][]byte{"a.test.js": text}, []string{"a.test.js::adds", "a.test.js::more > strings"}, "seed")
		case 1:
			bodies = goUnits(map[string][]byte{"a_test.go": text}, []string{".::TestTable", ".::TestCases/one"}, "seed")
		case 2:
			bodies = rustUnits(map[string][]byte{"src/lib.rs": text}, []string{"lib::adds"}, "seed")
		}
		for _, b := range bodies {
			for _, w := range b.twins {
				if _, err := (twin{Edits: sorted(append(append([]edit{}, b.mark...), w.Edits...))}).apply(text); err != nil {
					t.Errorf("%s: %+v: %v", b.name, w, err)
				}
			}
		}
	})
}

// Twins are drawn of Rust's tests and of jest's, which this machine may not have.
func TestDrawOthers(t *testing.T) {
	rust := "pub fn add(a: i32, b: i32) -> i32 { a - b }\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3, \"sum\");\n        assert!(add(2, 2) == 4);\n    }\n}\n"
	jest := "describe('sum', () => {\n  it('adds', () => {\n    expect(add(1, 2)).toBe(3);\n    expect(names()).toEqual(['a', 'b']);\n  });\n});\n"
	for name, b := range map[string][]*body{
		"rust": rustUnits(map[string][]byte{"src/lib.rs": []byte(rust)}, []string{"lib::tests::adds"}, "x"),
		"jest": scriptUnits(map[string][]byte{"sum.test.js": []byte(jest)}, []string{"sum.test.js::sum > adds"}, "x"),
	} {
		if len(b) != 1 || len(b[0].twins) < wantTwins || b[0].file == "" {
			t.Errorf("%s: %+v", name, b[0])
		}
	}
}

// What cargo, jest and go write is read as it is written.
func TestReadOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(*task.Task, []job, []jobDone, *openReport)
		id   []string
		done jobDone
		want []string
		line int // of the first
	}{
		{
			"cargo", readCargo,
			[]string{"lib::tests::adds", "lib::tests::zero"},
			jobDone{Code: []byte("101"), Out: []byte("running 2 tests\ntest tests::zero ... ok\ntest tests::adds ... FAILED\n\nfailures:\n\n---- tests::adds stdout ----\nthread 'tests::adds' panicked at src/lib.rs:9:9:\nassertion `left == right` failed\n  left: -1\n right: 3\n\nfailures:\n    tests::adds\n")},
			[]string{"failed by an assertion", "passed"},
			9,
		},
		{
			"jest", readJest,
			[]string{"a.test.js::sum > adds", "a.test.js::zero"},
			jobDone{Code: []byte("1"), File: []byte(`{"testResults":[{"assertionResults":[{"ancestorTitles":["sum"],"title":"adds","status":"failed","failureMessages":["Error: expect(received).toBe(expected)\\n    at Object.toBe (/repo/a.test.js:4:21)"]},{"ancestorTitles":[],"title":"zero","status":"passed","failureMessages":[]}]}]}`)},
			[]string{"failed by an assertion", "passed"},
			4,
		},
		{
			"go", readGo,
			[]string{"a::TestA", "a::TestA/x"},
			jobDone{Code: []byte("1"), Out: []byte("\x16=== RUN   TestA\n\x16=== RUN   TestA/x\n    a_test.go:9: 3\n\x16--- FAIL: TestA (0.00s)\n    \x16--- PASS: TestA/x (0.00s)\n")},
			[]string{"failed by an assertion", "passed"},
			9,
		},
		{"go panics", readGo, []string{"a::TestA"}, jobDone{Code: []byte("2"), Out: []byte("\x16=== RUN   TestA\n\x16--- FAIL: TestA (0.00s)\npanic: boom\n")}, []string{"failed"}, 0},
	} {
		r := &openReport{t: &task.Task{}, got: map[string]TestResult{}, played: map[string]int{}}
		tt.read(r.t, []job{{tests: tt.id}}, []jobDone{tt.done}, r)
		for i, id := range tt.id {
			got := "failed"
			if x := r.got[id]; x.Passed {
				got = "passed"
			} else if x.asserted {
				got = "failed by an assertion"
			}
			if got != tt.want[i] {
				t.Errorf("%s: %s %s, want %s", tt.name, id, got, tt.want[i])
			}
			if i == 0 && r.got[id].line != tt.line {
				t.Errorf("%s: line %d, want %d", tt.name, r.got[id].line, tt.line)
			}
		}
	}
}

var _ kind.Twinned = (*Kind)(nil)
