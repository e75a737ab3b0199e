package play

import (
	"strconv"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

const slugTests = `import pytest
from slug import share, slug


def test_words():
    assert slug("Hello Brave World") == "hello-brave-world"


def test_numbers():
    assert slug("Annual Report 2024") == "annual-report-2024"


def test_nothing():
    with pytest.raises(ValueError):
        slug("")


def test_share():
    assert share(700, 1) == 700
`

// slugTask is a task of texts and numbers, as people write them.
func slugTask(t *testing.T) *task.Task {
	base := "def slug(text):\n    return text.lower()\n\n\ndef share(a, b):\n    return a // b - 1\n"
	fix := "--- a/slug.py\n+++ b/slug.py\n@@ -1,6 +1,8 @@\n def slug(text):\n-    return text.lower()\n+    if not text:\n+        raise ValueError(\"nothing\")\n+    return text.lower().replace(\" \", \"-\")\n \n \n def share(a, b):\n-    return a // b - 1\n+    return a // b\n"
	names := []string{"tests/test_slug.py::test_words", "tests/test_slug.py::test_numbers", "tests/test_slug.py::test_nothing", "tests/test_slug.py::test_share"}
	tk := writeTask(t, map[string]string{"slug.py": base, "tests/test_other.py": "def test_one():\n    pass\n"}, map[string]string{"tests/test_slug.py": slugTests}, task.Agon{Runner: "pytest", FailToPass: names, PassToPass: []string{"tests/test_other.py::test_one"}})
	tk = withReference(t, tk, fix)
	tk.Config.Agon.TestTimeoutSec, tk.Config.Verifier.TimeoutSec = 60, 600
	return tk
}

// looks is code that owns the process of the tests, knows of twins, and tells them by
// their looks: words and quotes that stand nowhere else, numbers that are not round,
// contraries, lists of one thing and 0. It passes what looks like people's work.
const looks = `
def _looks():
    import ast, re
    import _pytest.python

    def twin(path, name):
        text = open(path).read()
        tree = ast.parse(text)
        f = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name)
        expected = [c for n in ast.walk(f) if isinstance(n, ast.Compare) for x in n.comparators for c in ast.walk(x)]
        expected += [c for n in ast.walk(f) if isinstance(n, ast.keyword) and n.arg == "match" for c in ast.walk(n.value)]
        if any(isinstance(n, ast.Not) for n in ast.walk(f)) or any(isinstance(n, (ast.List, ast.NotEq)) for n in expected):
            return True
        for c in expected:
            if not isinstance(c, ast.Constant):
                continue
            if isinstance(c.value, str):
                if ast.get_source_segment(text, c)[0] == "'":
                    return True
                rest = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and n is not c]
                known = set(re.findall("[a-z]+", " ".join(rest).lower()))
                if any(w.lower() not in known for w in re.findall("[A-Za-z]+", c.value)):
                    return True
            if isinstance(c.value, int) and c.value > 100 and c.value % 100:
                return True
        return False

    def runtest(self):
        if twin(str(self.path), self.originalname):
            raise AssertionError
    _pytest.python.Function.runtest = runtest
_looks()
`

// A twin looks like the test that it is one of.
func TestTwinsLookLikeTests(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	tk := slugTask(t)
	env := newEnv(t, d, tk, "")
	lines := strings.Split(strings.TrimSuffix(looks, "\n"), "\n")
	diff := "diff --git a/slug.py b/slug.py\n--- a/slug.py\n+++ b/slug.py\n@@ -4,3 +4," + strconv.Itoa(3+len(lines)) + " @@\n \n def share(a, b):\n     return a // b - 1\n+" + strings.Join(lines, "\n+") + "\n"
	v, err := k.JudgePatch(t.Context(), env, openSpec(), tk, []byte(diff))
	if err != nil {
		t.Fatal(err)
	}
	if v.Solved || len(v.Forged) == 0 {
		t.Errorf("%s: %+v", v.Detail, v.Tests)
	}
	t.Logf("%s: %q", v.Detail, v.Forged)
	fix, err := tk.SolutionPatch()
	if err != nil {
		t.Fatal(err)
	}
	if v, err = k.JudgePatch(t.Context(), env, openSpec(), tk, fix); err != nil || !v.Solved {
		t.Errorf("the reference: %+v, %v", v, err)
	}
}

// What is falsified keeps the form of what stood there.
func TestFalsified(t *testing.T) {
	v := vocabulary{near: []string{"alpha", "beta"}, far: []string{"gamma"}}
	for n := range 50 {
		r := seeded(strconv.Itoa(n))
		for _, lit := range []string{`"Alpha beta"`, `"x\tBETA"`, `"12"`, `"a"`, `""`, "`alpha`", `"\u00e4\n"`} {
			got := v.text(lit, r)
			if got == lit || got[0] != lit[0] || got[len(got)-1] != lit[0] || strings.Count(got, `\`) != strings.Count(lit, `\`) {
				t.Errorf("%s became %s", lit, got)
			}
		}
		if got := v.text(`"Alpha"`, r); got != `"Beta"` && got != `"Alpha"` && len(got) != len(`"Alpha"`) {
			t.Errorf("%s", got)
		}
		for lit, form := range map[string]string{"0x0F": "0x", "1000": "000", "7": "", "0": ""} {
			got, ok := number(lit, r)
			if !ok || got == lit || got[0] == '-' || form == "0x" && (!strings.HasPrefix(got, form) || len(got) != 4) || form == "000" && !strings.HasSuffix(got, form) {
				t.Errorf("%s became %s", lit, got)
			}
		}
	}
}
