package play

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// state is where boxes of this test process live.
var state string

func TestMain(m *testing.M) {
	netns.MaybeChild()
	err := os.Setenv("AGON_TEST_HOST_ONLY", "host-only-value") // must be seen in no box
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if state, err = os.MkdirTemp("", "agon-test-"); err == nil {
		err = os.Chmod(state, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(state)
	os.Exit(code)
}

// driver is AGON_DRIVER; without it runc plays, whose boxes cost half of gVisor's, and
// where it cannot run the strongest.
var driver = sync.OnceValues(func() (sandbox.Driver, error) {
	dir, err := rootfs.Ensure(context.Background(), rootfs.Config{})
	if err != nil {
		return nil, err
	}
	want := os.Getenv("AGON_DRIVER")
	d, reports, err := probe.Probe(context.Background(), probe.Config{Rootfs: dir, StateDir: state, Want: cmp.Or(want, "runc")})
	if err != nil && want == "" {
		d, reports, err = probe.Probe(context.Background(), probe.Config{Rootfs: dir, StateDir: state})
	}
	if err != nil {
		return nil, fmt.Errorf("%w %+v", err, reports)
	}
	return d, nil
})

// world is a kind.Env over real boxes and tasks and submissions in temporary directories.
type world struct {
	t     testing.TB
	d     sandbox.Driver
	kind  *Kind
	roots *rootfs.Roots // images; nil: there are none
	tasks map[string]*task.Task
	trees map[agon.Digest]string

	mu     sync.Mutex // guards below
	boxes  []sandbox.Box
	names  []string
	events []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("no box, nothing can be tested: %v", err)
	}
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, d: d, kind: New(Config{Rootfs: root}), tasks: map[string]*task.Task{}, trees: map[agon.Digest]string{}}
	t.Cleanup(func() {
		for _, b := range w.boxes {
			_ = b.Close()
		}
	})
	return w
}

func (w *world) Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := w.d.Start(ctx, spec)
	if err == nil {
		w.mu.Lock()
		w.boxes, w.names = append(w.boxes, b), append(w.names, spec.Name)
		w.mu.Unlock()
	}
	return b, err
}

func (w *world) Tree(_ context.Context, d agon.Digest) (string, error) {
	if dir, ok := w.trees[d]; ok {
		return dir, nil
	}
	return "", fmt.Errorf("no tree %s", d)
}

func (w *world) Task(_ context.Context, r agon.TaskRef) (*task.Task, error) {
	if tk, ok := w.tasks[r.Key]; ok {
		return tk, nil
	}
	return nil, fmt.Errorf("no task %s", r.Key)
}

func (w *world) Door(context.Context, string, ...string) ([]sandbox.Door, error) {
	return nil, fmt.Errorf("no doors")
}

func (w *world) Model(context.Context, gateway.Policy) (gateway.Session, error) {
	return nil, fmt.Errorf("no model")
}

func (w *world) Root(ctx context.Context, image string) (rootfs.Root, error) {
	if w.roots == nil {
		return rootfs.Root{}, errors.New("no images")
	}
	return w.roots.Of(ctx, image)
}

func (w *world) Tools(context.Context, string, tools.SessionConfig) (kind.ToolSession, error) {
	return kind.ToolSession{}, fmt.Errorf("no tools")
}

func (w *world) Progress(typ, _ string, data any) {
	b, _ := json.Marshal(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, typ+" "+string(b))
}

// files writes a directory that boxes can read.
func files(t testing.TB, all map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for n, text := range all {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// put serves a task and its tree.
func (w *world) put(tk *task.Task) {
	w.tasks[tk.Key], w.trees[tk.Digest] = tk, tk.Dir
}

// task makes a task of research.toml and files of the base ("repo/…") and hidden ones ("hidden/…").
func (w *world) task(toml string, all map[string]string) *task.Task {
	w.t.Helper()
	tree := map[string]string{
		"task.toml":      "version = \"1\"\n[task]\nname = \"test/one\"\n[agon]\nkind = \"research\"\n",
		"instruction.md": "make it better\n",
		TaskFile:         toml,
	}
	for n, text := range all {
		switch {
		case n == "private":
			tree[PrivateFile] = text
		case len(n) > 7 && n[:7] == "hidden/":
			tree[HiddenDir+n[6:]] = text
		default:
			tree[BaseDir+"/"+n] = text
		}
	}
	tk, err := task.LoadDir(files(w.t, tree), "test/one")
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(tk)
	return tk
}

// submission makes the tree of an entry.
func (w *world) submission(patch string, c Claim) agon.Submission {
	w.t.Helper()
	if c.Summary == "" {
		c.Summary = "test"
	}
	b, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := files(w.t, map[string]string{PatchFile: patch, ClaimFile: string(b)})
	d := agon.Sum([]byte(dir))
	w.trees[d] = dir
	return agon.Submission{ID: "sub", Digest: d}
}

func (w *world) run() agon.RunSpec {
	if w.tasks["test/one"] == nil {
		w.tasks["test/one"] = &task.Task{} // a test of a shipped task names its own
	}
	return agon.RunSpec{Run: "run-1", Arena: "a", Seed: 7, Tasks: []agon.TaskRef{{Key: "test/one", Digest: w.tasks["test/one"].Digest}}, Policy: agon.Policy{
		Agent: agon.Limits{MemoryBytes: 512 << 20, Pids: 64, DiskBytes: 256 << 20, Inodes: 32768, OutputBytes: 8 << 20},
	}}
}

// play replays a patch and reads what came of it.
func (w *world) play(s agon.Submission, r agon.RunSpec) (agon.Record, Observed) {
	w.t.Helper()
	rec, err := w.kind.Play(w.t.Context(), w, s, r)
	if err != nil {
		w.t.Fatalf("play: %v", err)
	}
	var obs Observed
	if err := json.Unmarshal(rec.Files[ObservedFile], &obs); err != nil {
		w.t.Fatal(err)
	}
	return rec, obs
}
