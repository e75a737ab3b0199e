package check_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/task/check"
)

// verdict is one answer of a scripted grader.
type verdict struct {
	solved bool
	detail string
	err    error
}

// script answers oracle and nop from lists, in the order of calls.
type script struct {
	oracle, nop []verdict
	calls       []string
	during      func()
}

func (s *script) JudgePatch(_ context.Context, _ *task.Task, patch []byte) (bool, string, error) {
	list, name := &s.oracle, "oracle"
	if len(patch) == 0 {
		list, name = &s.nop, "nop"
	}
	s.calls = append(s.calls, name)
	v := (*list)[0]
	*list = (*list)[1:]
	if s.during != nil {
		s.during()
	}
	return v.solved, v.detail, v.err
}

func load(t *testing.T) *task.Task {
	t.Helper()
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got, err := task.Load(fstest.MapFS{
		"task.toml": file("version = \"1.0\"\n[agon]\nkind = \"coding\"\nbase = \"environment/repo\"\nhidden = \"tests/hidden\"\n" +
			"solution = \"solution/fix.patch\"\nfail_to_pass = [\"test_a.A.test_b\"]\n"),
		"instruction.md":         file("Mend it.\n"),
		"environment/repo/a.py":  file("a = 1\n"),
		"tests/hidden/test_a.py": file("import unittest\n"),
		"solution/fix.patch":     file("--- a/a.py\n"),
	}, "small/a")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a")
	if err := task.Materialise(got, dir); err != nil {
		t.Fatal(err)
	}
	got, err = task.LoadDir(dir, "small/a")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCheck(t *testing.T) {
	yes, no := verdict{solved: true, detail: "1/1"}, verdict{detail: "0/1; test_b: AssertionError at 0x1"}
	otherWhy := verdict{detail: "0/1; test_b: AssertionError at 0x2"}
	rows := []struct {
		name        string
		oracle, nop []verdict
		codes       string
	}{
		{"good", []verdict{yes, yes}, []verdict{no, no}, ""},
		{"good, message varies", []verdict{yes, yes}, []verdict{no, otherWhy}, ""},
		{"solution fails", []verdict{no, no}, []verdict{no, no}, "not_solved"},
		{"nothing solves", []verdict{yes, yes}, []verdict{yes, yes}, "solved_by_nothing"},
		{"upside down", []verdict{no, no}, []verdict{yes, yes}, "not_solved solved_by_nothing"},
		{"solution flaky", []verdict{yes, no}, []verdict{no, no}, "drifts"},
		{"nothing flaky", []verdict{yes, yes}, []verdict{no, yes}, "drifts"},
		{"counts drift", []verdict{yes, yes}, []verdict{no, {detail: "1/2"}}, "drifts"},
		{"grader breaks", []verdict{yes, {err: errors.New("host out of disk")}}, []verdict{no}, "not_graded"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got := check.Check(t.Context(), &script{oracle: r.oracle, nop: r.nop}, load(t))
			var codes []string
			for _, f := range got.Faults {
				codes = append(codes, f.Code)
			}
			if strings.Join(codes, " ") != r.codes || got.OK() != (r.codes == "") || (got.Reason() == "") != got.OK() {
				t.Errorf("got %+v, reason %q, want codes %q", got, got.Reason(), r.codes)
			}
		})
	}
}

func TestCheckOrder(t *testing.T) {
	yes, no := verdict{solved: true}, verdict{}
	s := &script{oracle: []verdict{yes, yes}, nop: []verdict{no, no}}
	r := check.Check(t.Context(), s, load(t))
	if got := strings.Join(s.calls, " "); got != "oracle nop oracle nop" {
		t.Errorf("order %s", got)
	}
	if len(r.Oracle) != 2 || !r.Oracle[0] || len(r.Nop) != 2 || r.Nop[1] {
		t.Errorf("report %+v", r)
	}
}

func TestCheckSeesChangedDirectory(t *testing.T) {
	yes, no := verdict{solved: true}, verdict{}
	tk := load(t)
	s := &script{oracle: []verdict{yes, yes}, nop: []verdict{no, no}, during: func() {
		if err := os.WriteFile(filepath.Join(tk.Dir, "environment/repo/new.py"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}}
	r := check.Check(t.Context(), s, tk)
	if r.OK() || r.Faults[0].Field != "directory" {
		t.Errorf("report %+v", r)
	}
}

func TestCheckNeedsSolution(t *testing.T) {
	recipe, err := task.Load(fstest.MapFS{
		"instruction.md": {Data: []byte("Mend it.\n")},
		"task.toml": {Data: []byte("[agon]\nkind = \"coding\"\nfail_to_pass = [\"a.B.c\"]\n[agon.released]\npackage = \"p\"\nbase = \"1\"\nfix = \"2\"\nlicence = \"MIT\"\n" +
			"base_sha256 = \"" + strings.Repeat("a", 64) + "\"\nfix_sha256 = \"" + strings.Repeat("b", 64) + "\"\nsources = [\"a.py\"]\ntests = { \"t.py\" = \"t.py\" }\n")},
	}, "released/p")
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Check(t.Context(), &script{}, recipe); r.OK() {
		t.Error("a recipe passed its controls without being fetched")
	}
}
