//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An instance of SWE-bench's form becomes a task whose image is made here, of a clone
// of its repository: the fix is solved, nothing is not, and the packages in the box
// are those of the commit's day. Its repository is made here, too.
func TestSWEBenchBuild(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "clones", "o", "turns")
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"}, args...)...)
		c.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2022-11-15T12:00:00Z", "GIT_AUTHOR_DATE=2022-11-15T12:00:00Z")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	write := func(files map[string]string) {
		t.Helper()
		for p, text := range files {
			at := filepath.Join(repo, p)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(map[string]string{
		"pyproject.toml":    "[build-system]\nrequires = [\"setuptools>=61\", \"setuptools-scm\"]\nbuild-backend = \"setuptools.build_meta\"\n[project]\nname = \"turns\"\ndynamic = [\"version\"]\ndependencies = [\"idna\"]\n[tool.setuptools]\npackages = [\"turns\"]\n[tool.setuptools_scm]\n",
		"turns/__init__.py": "def left(s):\n    return s\n",
		"tests/test_left.py": `import importlib.metadata

import turns


def test_of_the_day():
    assert importlib.metadata.version("idna") == "3.4"  # 3.5 came a year later
    assert importlib.metadata.version("turns") == "1.4.0"
`,
	})
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "a bug")
	git("tag", "v1.4.0")
	base := strings.TrimSpace(git("rev-parse", "HEAD"))
	write(map[string]string{"turns/__init__.py": "def left(s):\n    return s[1:] + s[:1]\n"})
	patch := git("diff")
	git("commit", "-qam", "the fix")
	b, err := os.ReadFile(filepath.Join(repo, "tests", "test_left.py"))
	if err != nil {
		t.Fatal(err)
	}
	write(map[string]string{"tests/test_left.py": string(b) + "\n\ndef test_left():\n    assert turns.left(\"abc\") == \"bca\"\n"})
	line, err := json.Marshal(map[string]any{
		"instance_id": "o__turns-7", "repo": "o/turns", "base_commit": base, "problem_statement": "left does not turn.", "patch": patch, "test_patch": git("diff"), "version": "1.4",
		"FAIL_TO_PASS": `["tests/test_left.py::test_left"]`, "PASS_TO_PASS": `["tests/test_left.py::test_of_the_day"]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lines.jsonl")
	if err := os.WriteFile(file, append(line, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	agon := func(v any, args ...string) {
		t.Helper()
		var errs strings.Builder
		cmd := exec.Command(agonBinary(t), append(args, "--data", filepath.Join(dir, "data"), "-o", "json")...)
		cmd.Stderr = &errs
		out, _ := cmd.Output() // its status says that some did not pass
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, errs.String())
		}
	}
	var list []struct {
		Task, Reason string
		OK           bool
	}
	tasks := filepath.Join(dir, "tasks")
	agon(&list, "task", "import", "swebench", file, tasks, "--only", "o__turns-7", "--build", "--repos", filepath.Join(dir, "clones"))
	if len(list) != 1 || !list[0].OK || list[0].Reason != "" {
		t.Fatalf("%+v", list)
	}
	var checked struct {
		OK          bool
		Oracle, Nop float64
		Forgeable   bool
		Reason      string
	}
	agon(&checked, "task", "check", filepath.Join(tasks, list[0].Task))
	if !checked.OK || checked.Oracle != 1 || checked.Nop != 0 || !checked.Forgeable {
		t.Errorf("%+v", checked)
	}
}
