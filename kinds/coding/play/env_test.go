package play

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// testEnv is a kind.Env over real boxes and one task, small enough to see through.
type testEnv struct {
	t      testing.TB
	driver sandbox.Driver
	task   *task.Task
	agent  string // directory with agent.py
	door   string // URL behind the doors
	roots  *rootfs.Roots

	mu     sync.Mutex // guards below
	events []string
	boxes  []sandbox.Box
}

const agentDigest = agon.Digest("sha256:agent")

var own struct {
	sync.Mutex
	kind *Kind
}

// newKind returns the kind of this process: as a validator does, it draws the
// twins of a task once, and not for each patch.
func newKind(t testing.TB) (*Kind, sandbox.Driver) {
	t.Helper()
	own.Lock()
	defer own.Unlock()
	if own.kind == nil {
		dir, err := rootfs.Ensure(t.Context(), rootfs.Config{})
		if err != nil {
			t.Fatalf("no root file system for boxes, nothing can be tested: %v", err)
		}
		own.kind = New(Config{Rootfs: dir})
	}
	return own.kind, openDriver(t, own.kind.cfg.Rootfs)
}

func newEnv(t testing.TB, d sandbox.Driver, tk *task.Task, agent string) *testEnv {
	t.Helper()
	e := &testEnv{t: t, driver: d, task: tk, agent: t.TempDir()}
	if err := os.Chmod(e.agent, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.agent, AgentFile), []byte(agent), 0o644); err != nil {
		t.Fatal(err)
	}
	// What stands behind the doors answers like a provider that is down.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, r.URL.Path)
	}))
	e.door = srv.URL
	t.Cleanup(func() {
		for _, b := range e.boxes {
			b.Close()
		}
		srv.Close()
	})
	return e
}

func (e *testEnv) Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := e.driver.Start(ctx, spec)
	if err == nil {
		e.mu.Lock()
		e.boxes = append(e.boxes, b)
		e.mu.Unlock()
	}
	return b, err
}

func (e *testEnv) Tree(_ context.Context, d agon.Digest) (string, error) {
	if d != agentDigest {
		return "", fmt.Errorf("no tree %s", d)
	}
	return e.agent, nil
}

func (e *testEnv) Task(context.Context, agon.TaskRef) (*task.Task, error) { return e.task, nil }

func (e *testEnv) Root(ctx context.Context, image string) (rootfs.Root, error) {
	if e.roots == nil {
		return rootfs.Root{}, fmt.Errorf("no images")
	}
	return e.roots.Of(ctx, image)
}

func (e *testEnv) Door(_ context.Context, _ string, listen ...string) ([]sandbox.Door, error) {
	var out []sandbox.Door
	for _, l := range listen {
		out = append(out, sandbox.Door{Listen: l, Target: e.door})
	}
	return out, nil
}

func (e *testEnv) Model(context.Context, gateway.Policy) (gateway.Session, error) {
	return nil, fmt.Errorf("no model")
}

func (e *testEnv) Tools(context.Context, string, tools.SessionConfig) (kind.ToolSession, error) {
	return kind.ToolSession{}, fmt.Errorf("no tools")
}

func (e *testEnv) Progress(typ, _ string, data any) {
	b, _ := json.Marshal(data)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, typ+" "+string(b))
}

func runSpec() agon.RunSpec {
	return agon.RunSpec{Run: "run-1", Arena: "a", Tasks: []agon.TaskRef{{Key: "t/one"}}, Policy: agon.Policy{
		Models: []string{"m1"},
		Agent:  agon.Limits{WallMS: 30_000, MemoryBytes: 256 << 20, Pids: 64, DiskBytes: 64 << 20, Inodes: 8192, OutputBytes: 2 << 20},
		Grader: agon.Limits{WallMS: 60_000, MemoryBytes: 512 << 20, Pids: 64, DiskBytes: 64 << 20, Inodes: 8192, OutputBytes: 8 << 20},
	}}
}

// writeTask makes a task directory: files of the base tree and of the hidden tests.
func writeTask(t *testing.T, base, hidden map[string]string, cfg task.Agon) *task.Task {
	t.Helper()
	dir := t.TempDir()
	for d, files := range map[string]map[string]string{"repo": base, "hidden": hidden} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range files {
			p := filepath.Join(dir, d, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	openPath(t, dir) // boxes run as another user
	cfg.Base, cfg.Hidden = "repo", "hidden"
	return &task.Task{Key: "t/one", Dir: dir, Instruction: "add is wrong", Config: task.Config{Agon: cfg}}
}

// withReference is a task of writeTask's as Load gives it, with a reference patch.
func withReference(t *testing.T, tk *task.Task, patch string) *task.Task {
	t.Helper()
	var ids []string
	for _, l := range [][]string{tk.Config.Agon.FailToPass, tk.Config.Agon.PassToPass} {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(b))
	}
	for _, d := range []string{"environment", "tests", "solution"} {
		if err := os.Mkdir(filepath.Join(tk.Dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"repo": "environment/repo", "hidden": "tests/hidden"} {
		if err := os.Rename(filepath.Join(tk.Dir, from), filepath.Join(tk.Dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"solution/fix.patch": patch, "instruction.md": tk.Instruction + "\n",
		"task.toml": fmt.Sprintf("version = \"1.0\"\n[task]\nname = \"t/one\"\n[agon]\nkind = \"coding\"\nrunner = %q\nbase = \"environment/repo\"\nhidden = \"tests/hidden\"\nsolution = \"solution/fix.patch\"\nfail_to_pass = %s\npass_to_pass = %s\n", cmp.Or(tk.Config.Agon.Runner, task.Unittest), ids[0], ids[1]),
	} {
		if err := os.WriteFile(filepath.Join(tk.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := task.LoadDir(tk.Dir, tk.Key)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// calcTask is a repository whose add subtracts.
func calcTask(t *testing.T) *task.Task {
	tests := `import unittest
import calc


class TestAdd(unittest.TestCase):
    def setUp(self):
        self.one = 1

    def test_add(self):
        self.assertEqual(calc.add(2, 3), 5)
        self.assertEqual(calc.add(self.one, 0), 1)

    def test_many(self):
        for a, b in [(1, 2), (3, 4)]:
            with self.subTest(a=a):
                self.assertEqual(calc.add(a, b), a + b)

    def test_raises(self):
        with self.assertRaises(TypeError):
            calc.add(None, 1)

    def test_bare(self):
        assert calc.add(4, 4) == 8
`
	return writeTask(t,
		map[string]string{
			"calc.py":            "def add(a, b):\n    return a - b\n",
			"tests/__init__.py":  "",
			"tests/test_calc.py": strings.Replace(tests, "calc.add(2, 3), 5", "calc.add(2, 0), 2", 1),
			".gitignore":         "*.log\n",
			"data.log":           "kept\n",
		},
		map[string]string{"tests/test_calc.py": tests},
		task.Agon{
			FailToPass: []string{"tests.test_calc.TestAdd.test_add", "tests.test_calc.TestAdd.test_many", "tests.test_calc.TestAdd.test_bare"},
			PassToPass: []string{"tests.test_calc.TestAdd.test_raises"},
		})
}

const calcFix = `diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
`
