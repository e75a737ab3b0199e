package play

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/coding/data"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// trees serves one directory per digest.
type trees map[agon.Digest]string

func (t trees) Tree(_ context.Context, d agon.Digest) (string, error) { return t[d], nil }

// The engine's rules hold of this kind too: what fails on our side never
// becomes a score, what the agent does to itself is.
func TestConformance(t *testing.T) {
	set, err := fs.Sub(data.FS, "tasks/small")
	if err != nil {
		t.Fatal(err)
	}
	list, err := task.LoadSet(set, "small")
	if err != nil || len(list) < 2 {
		t.Fatal(len(list), err)
	}
	limits := agon.Limits{WallMS: 5000, MemoryBytes: 256 << 20, Pids: 64, OutputBytes: 1 << 20}
	a := agon.Arena{ID: "conformance", Kind: Name, Policy: agon.Policy{
		Models: []string{"*"}, Agent: limits, Grader: limits, Budget: agon.Budget{Micros: 1_000_000, Calls: 10},
	}}
	dirs := trees{}
	for _, tk := range list[:2] {
		dir := filepath.Join(t.TempDir(), "task")
		if err := task.Materialise(tk, dir); err != nil {
			t.Fatal(err)
		}
		dirs[tk.Digest] = dir
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: tk.Key, Digest: tk.Digest})
	}
	code := func(s string) fs.FS { return fstest.MapFS{"agent.py": {Data: []byte(s)}} }
	sub := agon.Submission{ID: "sub-1", Arena: a.ID, Digest: agon.Sum([]byte("agent"))}
	dirs[sub.Digest] = t.TempDir()
	kindtest.Run(t, kindtest.Case{
		Kind: New(Config{Rootfs: "/"}), Arena: a, Trees: dirs, Submission: sub,
		Good: code("def agent_main(input):\n    return ''\n"),
		Bad: []fs.FS{
			fstest.MapFS{},
			code("x = 1\n"), code("async def agent_main(i):\n    pass\n"),
			code("def agent_main():\n    pass\n"), code("\xff\xfe"),
			fstest.MapFS{"agent.py": {Data: []byte("def agent_main(i): pass\n")}, "more.py": {Data: []byte("x")}},
		},
		Behave: func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				b.SetFile(resultFile, []byte("ok\n\ndiff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n"))
			}
			return sandbox.Exit{}
		},
	})
}
