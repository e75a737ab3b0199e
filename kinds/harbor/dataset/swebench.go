package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// OfficialImage is where the benchmark's authors publish an instance's image.
const OfficialImage = "docker.io/swebench/sweb.eval.x86_64.{id_1776}"

// Bounds of a file of instances.
const (
	maxLine     = 16 << 20
	maxTestIDs  = 5000
	maxInstance = 8 << 20
)

// SWEBench imports instances of a file (.jsonl or .parquet) in the official
// fields, or those of Multi-SWE-bench. image is a template of the image's name.
// With only, other instances are passed over; one of only that the file has not is an error.
func (w *Writer) SWEBench(ctx context.Context, file, image string, only ...string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open instances: %w", err)
	}
	defer f.Close()
	missing := slices.Clone(only)
	each := func(n int, row map[string]any) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		source := fmt.Sprintf("row %d", n)
		if len(only) > 0 {
			if at := slices.Index(missing, text(row["instance_id"])); at >= 0 {
				missing = slices.Delete(missing, at, at+1)
			} else {
				return nil
			}
		}
		x, err := instanceOf(row)
		if err != nil {
			w.list = append(w.list, Imported{Source: source, Reason: err.Error()})
			return nil
		}
		files, err := x.task(image)
		if err != nil {
			w.list = append(w.list, Imported{Task: Slug(x.ID), Source: x.ID, Reason: err.Error()})
			return nil
		}
		return w.add(x.ID, x.ID, files)
	}
	magic, read := make([]byte, 4), lineRows
	if _, err := f.ReadAt(magic, 0); err == nil && string(magic) == "PAR1" {
		read = parquetRows
	}
	if err := read(f, each); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: no instance %.100q", filepath.Base(file), missing[0])
	}
	return nil
}

// lineRows reads the rows of a file of lines of JSON.
func lineRows(f *os.File, each func(int, map[string]any) error) error {
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 64<<10), maxLine)
	n := 0
	for s.Scan() {
		line := bytes.TrimSpace(s.Bytes())
		if n++; len(line) == 0 {
			continue
		}
		var row map[string]any
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := each(n, row); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d bytes", n+1, maxLine)
	}
	return s.Err()
}

// instance is one of SWE-bench's.
type instance struct {
	ID, Repo, Base, Problem, Patch, TestPatch, Version, Licence string
	Fails, Passes                                               []string
	raw                                                         map[string]any
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// names reads a list of test ids: a list, or the JSON of one in a text.
func names(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []string:
		return v, nil
	case []any:
		out := make([]string, len(v))
		for i, x := range v {
			if out[i] = text(x); out[i] == "" {
				return nil, errors.New("want names of tests")
			}
		}
		return out, nil
	case map[string]any: // Multi-SWE-bench: name to how it ended
		if inner, ok := v["list"]; ok {
			return names(inner)
		}
		var out []string
		for k := range v {
			out = append(out, k)
		}
		return out, nil
	}
	s := text(v)
	if s == "" {
		return nil, nil
	}
	var out []string
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return nil, errors.New("want a list of names, or the JSON of one")
	}
	return out, nil
}

var instanceID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$`)

func instanceOf(row map[string]any) (*instance, error) {
	get := func(names ...string) string {
		for _, n := range names {
			if s := text(row[n]); s != "" {
				return s
			}
		}
		return ""
	}
	x := &instance{
		ID: get("instance_id"), Repo: get("repo"), Base: get("base_commit"), Problem: get("problem_statement"), Patch: get("patch", "fix_patch"),
		TestPatch: get("test_patch"), Version: get("version"), Licence: get("license_name", "license", "licence"), raw: row,
	}
	if org := get("org"); org != "" && !strings.Contains(x.Repo, "/") { // Multi-SWE-bench
		x.Repo = org + "/" + x.Repo
		if x.Problem == "" {
			x.Problem = strings.TrimSpace(get("title") + "\n\n" + get("body"))
			if list, ok := row["resolved_issues"].([]any); ok && len(list) > 0 {
				if m, ok := list[0].(map[string]any); ok {
					x.Problem = strings.TrimSpace(text(m["title"]) + "\n\n" + text(m["body"]))
				}
			}
		}
		if m, ok := row["base"].(map[string]any); ok && x.Base == "" {
			x.Base = text(m["sha"])
		}
	}
	if !instanceID().MatchString(x.ID) {
		return nil, fmt.Errorf("instance_id %.100q: want letters, digits and _.-", x.ID)
	}
	for field, s := range map[string]string{"problem_statement": x.Problem, "patch": x.Patch, "test_patch": x.TestPatch} {
		if s == "" || len(s) > maxInstance {
			return nil, fmt.Errorf("%s: %s is missing or larger than %d bytes", x.ID, field, maxInstance)
		}
	}
	for _, f := range []struct {
		to   *[]string
		name []string
	}{{&x.Fails, []string{"FAIL_TO_PASS", "f2p_tests", "fail_to_pass"}}, {&x.Passes, []string{"PASS_TO_PASS", "p2p_tests", "pass_to_pass"}}} {
		for _, n := range f.name {
			if v, ok := row[n]; ok && len(*f.to) == 0 {
				list, err := names(v)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", x.ID, n, err)
				}
				*f.to = list
			}
		}
	}
	if len(x.Fails) == 0 {
		return nil, fmt.Errorf("%s: FAIL_TO_PASS names no test", x.ID)
	}
	if n := len(x.Fails) + len(x.Passes); n > maxTestIDs {
		return nil, fmt.Errorf("%s: %d tests, at most %d", x.ID, n, maxTestIDs)
	}
	return x, nil
}

// Image is an image's name by a template: {id}, {id_1776} (as the benchmark's own
// images are named), {repo} and {version} are the instance's.
func (x *instance) image(template string) string {
	return strings.NewReplacer("{id_1776}", strings.ToLower(strings.ReplaceAll(x.ID, "__", "_1776_")), "{id}", strings.ToLower(x.ID), "{repo}", strings.ToLower(x.Repo), "{version}", x.Version).Replace(template)
}

// task makes the task directory of an instance.
func (x *instance) task(image string) (tree, error) {
	pytest := 0
	for _, id := range append(append([]string{}, x.Fails...), x.Passes...) {
		switch {
		case strings.Contains(id, ".py::") || strings.HasSuffix(id, ".py"):
			pytest++
		case x.Repo == "django/django":
		default:
			return nil, fmt.Errorf("test %.100q: only tests of pytest and Django are run", id)
		}
	}
	runner := "pytest"
	if pytest == 0 {
		runner = "django"
	}
	line, err := json.Marshal(x.raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.ID, err)
	}
	tests, err := json.Marshal(map[string]any{"runner": runner, "fail_to_pass": x.Fails, "pass_to_pass": x.Passes})
	if err != nil {
		return nil, err
	}
	name := x.image(image)
	config := "schema_version = \"1.4\"\n\n[task]\nname = " + quote("swebench/"+Slug(x.ID)) + "\nkeywords = [\"swe-bench\"]\n\n[metadata]\nsource = " + quote("SWE-bench "+x.ID+", "+x.Repo+"@"+x.Base) +
		"\nlicence = " + quote(x.Licence) + "\n\n[agent]\ntimeout_sec = 3000.0\n\n[verifier]\ntimeout_sec = 3000.0\n\n[environment]\nworkdir = \"/testbed\"\nmemory_mb = 4096\nstorage_mb = 10240\ndocker_image = " + quote(name) + "\n"
	return tree{
		"task.toml": []byte(config), "instruction.md": []byte(x.Problem + "\n"),
		"environment/Dockerfile": []byte("FROM " + name + "\nWORKDIR /testbed\nRUN git -C /testbed rev-parse HEAD\n"),
		"tests/test.sh":          []byte(sweTest), "tests/grade.py": []byte(sweGrade), "tests/tests.json": tests, "tests/test.patch": []byte(ending(x.TestPatch)), "tests/instance.json": line,
		"solution/solve.sh": []byte("#!/bin/bash\nset -e\ncd /testbed\ngit apply --whitespace=nowarn \"$(dirname \"$0\")/fix.patch\"\n"), "solution/fix.patch": []byte(ending(x.Patch)),
	}, nil
}

func ending(s string) string { return strings.TrimRight(s, "\n") + "\n" }

const sweTest = `#!/bin/bash
# The instance's own tests are laid over the work, then those that decide are run.
cd /testbed || exit 1
for f in /opt/miniconda3/bin/activate; do [ -f "$f" ] && . "$f" testbed; done
echo 0 > /logs/verifier/reward.txt
python3 /tests/grade.py files | xargs -r -d '\n' git checkout -q HEAD -- 2>/dev/null
git apply --whitespace=nowarn /tests/test.patch || exit 1
python /tests/grade.py run
`

const sweGrade = `"""Run the tests that decide and write the reward: all of them must pass."""
import json
import re
import subprocess
import sys

patch = open("/tests/test.patch").read()
if sys.argv[1] == "files":
    print("\n".join(sorted({m for m in re.findall(r"^--- a/(.*)$", patch, re.M)})))
    sys.exit()
job = json.load(open("/tests/tests.json"))
want = job["fail_to_pass"] + job["pass_to_pass"]
passed = set()
if job["runner"] == "django":
    labels = sorted({re.search(r"\(([^)]*)\)", t).group(1).rsplit(".", 1)[0] for t in want if "(" in t})
    out = subprocess.run([sys.executable, "tests/runtests.py", "--verbosity", "2", "--parallel", "1", *labels], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace").stdout
    passed = set(re.findall(r"^(\S+ \([^)]*\))(?: \.\.\.|\n[^\n]* \.\.\.) ok$", out, re.M))
else:
    files = sorted({t.split("::")[0] for t in want})
    out = subprocess.run([sys.executable, "-m", "pytest", "-rA", "--tb=no", "-p", "no:cacheprovider", *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace").stdout
    passed = {line[len("PASSED "):].strip() for line in out.splitlines() if line.startswith("PASSED ")}
print(out[-4000:])
missing = [t for t in want if t not in passed]
print(len(want) - len(missing), "of", len(want), "passed")
open("/logs/verifier/reward.txt", "w").write("%d\n" % (not missing))
`
