package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// The image that was built for a task is named in its [environment], whatever
// that looked like, and an import of the same source leaves such a task as it is.
func TestSetImage(t *testing.T) {
	ref := "task/x@sha256:" + strings.Repeat("ab", 32)
	for name, config := range map[string]string{
		"a table":         "[task]\nname = \"a/b\"\n[environment] # of the box\nmemory_mb = 64\n",
		"none":            "[task]\nname = \"a/b\"",
		"only a table in": "[task]\nname = \"a/b\"\n[environment.env]\nA = \"b\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			for p, text := range map[string]string{"task.toml": config, "instruction.md": "do it", "tests/test.sh": "true\n", "environment/Dockerfile": "FROM x\nRUN make\n"} {
				at := filepath.Join(src, "one", p)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			w := &Writer{Dir: dst}
			if err := w.Harbor(t.Context(), src); err != nil || !w.Imported()[0].OK {
				t.Fatal(err, w.Imported())
			}
			built, err := SetImage(filepath.Join(dst, "one"), "import/one", ref)
			if err != nil || built.Image() != ref || built.Digest == w.Imported()[0].Digest {
				t.Fatal(err, built)
			}
			again := &Writer{Dir: dst}
			if err := again.Harbor(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			if x := again.Imported()[0]; !x.Cached || x.Digest != built.Digest {
				t.Errorf("%+v", x)
			}
			if kept, err := task.LoadDir(filepath.Join(dst, "one"), "import/one"); err != nil || kept.Image() != ref {
				t.Errorf("%v", err)
			}
			// Another source of that name is not taken for it.
			if err := os.WriteFile(filepath.Join(src, "one", "instruction.md"), []byte("do that"), 0o644); err != nil {
				t.Fatal(err)
			}
			other := &Writer{Dir: dst}
			if err := other.Harbor(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			if x := other.Imported()[0]; x.OK || !strings.Contains(x.Reason, "other bytes") {
				t.Errorf("%+v", x)
			}
		})
	}
}

// The image of a container beside the task's is named in the compose file, and an
// import of the same source leaves such a task as it is.
func TestSetService(t *testing.T) {
	ref := "task/x-db@sha256:" + strings.Repeat("ab", 32)
	src, dst := t.TempDir(), t.TempDir()
	put(t, src, under("one"))
	put(t, src, map[string]string{"one/environment/docker-compose.yaml": "# of the task\nservices:\n  main: {}\n  db:\n    build: ./db\n    image: db:latest\n  web:\n    build: ./web\n"})
	w := &Writer{Dir: dst}
	if err := w.Harbor(t.Context(), src); err != nil || !w.Imported()[0].OK {
		t.Fatal(err, w.Imported())
	}
	at := filepath.Join(dst, "one")
	for _, name := range []string{"db", "web"} {
		if _, err := SetService(at, "import/one", name, ref); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(at, "environment/docker-compose.yaml"))
	if err != nil || strings.Count(string(b), ref) != 2 || !strings.Contains(string(b), "# of the task") || strings.Contains(string(b), "latest") {
		t.Errorf("%s %v", b, err)
	}
	for _, name := range []string{"none", "main.db"} {
		if _, err := SetService(at, "import/one", name, ref); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	again := &Writer{Dir: dst}
	if err := again.Harbor(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if x := again.Imported()[0]; !x.Cached {
		t.Errorf("%+v", x)
	}
	if now, err := os.ReadFile(filepath.Join(at, "environment/docker-compose.yaml")); err != nil || string(now) != string(b) {
		t.Errorf("%s %v", now, err)
	}
}
