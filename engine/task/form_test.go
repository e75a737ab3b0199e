package task

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// A task of any kind loads; what its kind wants besides is a Form.
func TestForm(t *testing.T) {
	bare := func(e fstest.MapFS) *Task {
		m := fstest.MapFS{"task.toml": text("[agon]\nkind = \"chess\"\n"), "instruction.md": text("Mate in two.\n")}
		for p, f := range e {
			m[p] = f
		}
		got, err := Load(m, "set/a")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	repo, err := Load(good(nil), "set/b")
	if err != nil {
		t.Fatal(err)
	}
	linked, err := Load(good(edit{"environment/symlinks": text("board.json -> stack.py\n"), "environment/board.json": text("{}")}), "set/c")
	if err != nil {
		t.Fatal(err)
	}
	want := Form{Files: []string{"environment/board.json"}, Limit: 4, Dirs: []string{"tests"}}
	for _, c := range []struct {
		name string
		task *Task
		form Form
		want string // all of the error behind "task set/x: "
	}{
		{"good", bare(fstest.MapFS{"environment/board.json": text("1234"), "tests/a": text("")}), want, ""},
		{"both missing", bare(nil), want, "environment/board.json: missing; tests: missing or holds no file"},
		{"a directory in its place", bare(fstest.MapFS{"environment/board.json/x": text("1"), "tests/a": text("")}), want, "environment/board.json: missing"},
		{"a byte more", bare(fstest.MapFS{"environment/board.json": text("12345"), "tests/a": text("")}), want, "environment/board.json: 5 bytes are too many (limit 4 bytes)"},
		{"fields of another form", repo, Form{}, "agon: a coding task has no field but kind"},
		{"a link in its place", linked, Form{Files: []string{"environment/repo/board.json"}, Limit: 9, Repository: true}, "environment/repo/board.json: missing"},
		{"a repository", repo, Form{Repository: true}, ""},
		{"no repository", bare(nil), Form{Repository: true}, "agon: a chess task names base, hidden, solution and fail_to_pass"},
	} {
		got := ""
		if err := c.form.Check(c.task); err != nil {
			got = strings.TrimPrefix(err.Error(), "task "+c.task.Key+": ")
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v is not ErrInvalid", c.name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
