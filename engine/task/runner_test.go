package task

import (
	"strings"
	"testing"
)

func TestRunnerIDs(t *testing.T) {
	for _, tt := range []struct {
		runner, id string
		ok         bool
	}{
		{"", "tests.test_a.TestA.test_b", true},
		{"unittest", "tests.test_a", false},
		{"pytest", "tests/test_a.py::test_b[x y-1]", true},
		{"pytest", "tests/test_a.py::TestA::test_b", true},
		{"pytest", "../test_a.py::test_b", false},
		{"pytest", "tests/test_a.py", false},
		{"pytest", "tests/test_a.py::a\nb", false},
		{"pytest", "tests/test a.py::b", false},
		{"go", ".::TestA", true},
		{"go", "internal/x::TestA/case_1", true},
		{"go", "../x::TestA", false},
		{"go", ".::BenchmarkA", false},
		{"node", "test/a.test.js::suite > adds", true},
		{"node", "test/a.test.rb::adds", false},
		{"jest", "src/a.test.tsx::adds", true},
		{"cargo", "lib::parser::tests::adds", true},
		{"cargo", "test it::adds", true},
		{"cargo", "lib::adds; rm", false},
		{"script", "checks/run.sh", true},
		{"script", "/checks/run.sh", false},
	} {
		r, ok := RunnerOf(&Agon{Runner: tt.runner})
		if !ok || r.ID(tt.id) != tt.ok {
			t.Errorf("%s %q: want %v", tt.runner, tt.id, tt.ok)
		}
	}
	if _, ok := RunnerOf(&Agon{Runner: "tap"}); ok {
		t.Error("a runner that nobody knows")
	}
}

// What decides a grade is the task's, whatever a patch puts there.
func TestRunnersOwn(t *testing.T) {
	for runner, paths := range map[string]string{
		"pytest": "conftest.py a/conftest.py setup.cfg pyproject.toml",
		"go":     "a_test.go x/y_test.go go.mod vendor/m/m.go testdata/a.golden x/testdata/a/b",
		"node":   "package.json node_modules/m/index.js src/a.test.js src/__tests__/a.js",
		"jest":   "jest.config.js babel.config.js a.spec.ts src/__snapshots__/a.js.snap",
		"cargo":  "tests/it.rs Cargo.toml .cargo/config.toml build.rs",
	} {
		r, _ := RunnerOf(&Agon{Runner: runner})
		for p := range strings.FieldsSeq(paths) {
			if !r.Own(p) {
				t.Errorf("%s: a patch may change %s", runner, p)
			}
		}
		for _, p := range []string{"src/main.py", "lib/a.go", "index.js", "src/lib.rs"} {
			if r.Own(p) {
				t.Errorf("%s: no patch may change %s", runner, p)
			}
		}
	}
}

// Release notes come with the archives: only what is new stands in the instruction.
func TestNotes(t *testing.T) {
	r := &Released{Fix: "1.1", Notes: "CHANGES"}
	got := string(withNotes("mend it\n", r, map[string][]byte{"CHANGES": []byte("1.0\n\n- old\n")}, map[string][]byte{"CHANGES": []byte("1.1\n\n- new\n\n1.0\n\n- old\n")}))
	if want := "mend it\n\nFrom the release notes of 1.1:\n\n> 1.1\n>\n> - new\n"; !strings.HasPrefix(got, want) || strings.Contains(got, "old") {
		t.Errorf("%q", got)
	}
	long := []byte(strings.Repeat("- a line that is new and long enough to fill what notes may have\n", 1000))
	for i := range long {
		if long[i] == '\n' && i%7 == 0 {
			long[i] = '.'
		}
	}
	if got := withNotes("mend it\n", r, nil, map[string][]byte{"CHANGES": long}); len(got) > 2*maxNotes {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzUnpackGo(f *testing.F) {
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := Unpack("go", "example.org/m", "v1.0.0", b)
		for p := range files {
			if checkPath(p) != nil || err != nil {
				t.Errorf("%q: %v", p, err)
			}
		}
	})
}
