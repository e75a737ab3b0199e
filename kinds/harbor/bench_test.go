package harbor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// BenchmarkForm loads 100 task directories and checks each in form, with Harbor's lint.
func BenchmarkForm(b *testing.B) {
	dir := b.TempDir()
	shipped, err := filepath.Glob("tasks/basic/*")
	if err != nil || len(shipped) == 0 {
		b.Fatal(shipped, err)
	}
	for i := range 100 {
		if err := os.CopyFS(filepath.Join(dir, fmt.Sprintf("task-%03d", i)), os.DirFS(shipped[i%len(shipped)])); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for i := range 100 {
			name := fmt.Sprintf("task-%03d", i)
			t, err := task.LoadDir(filepath.Join(dir, name), "some/"+name)
			if err != nil || !adopts(t) {
				b.Fatal(name, err)
			}
			if err := checkTask(t); err != nil {
				b.Fatal(err)
			}
			harbor{}.Lint(t)
		}
	}
}

// BenchmarkSnapshot is from the end of an agent, whose work directory has 500 MB in 500
// files and of whose making 20 MB are, to a verifier's box in which they lie.
func BenchmarkSnapshot(b *testing.B) {
	base := b.TempDir()
	for i := range 480 {
		if err := os.WriteFile(filepath.Join(base, fmt.Sprint(i)), make([]byte, 1<<20), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s, start := snapshotBoxes(b, base)
	agent := start()
	before, why, err := s.look(b.Context(), agent, nil, maxWork)
	if err != nil || why != "" {
		b.Fatal(why, err)
	}
	if err := prepare(context.Background(), agent, "for i in $(seq 20); do head -c 1000000 /dev/urandom > "+s.dir+"/new$i; done"); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		verifier := start()
		b.StartTimer()
		at := time.Now()
		work, why, err := s.look(b.Context(), agent, before, maxWork)
		if err != nil || why != "" {
			b.Fatal(why, err)
		}
		clean, _, err := s.cleaned(work, false)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.replay(b.Context(), verifier, clean); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

// snapshotBoxes starts boxes whose work directory holds what base does.
func snapshotBoxes(tb testing.TB, base string) (*stage, func() sandbox.Box) {
	tb.Helper()
	k := Kit()
	o := kittest.Options(tb.TempDir(), kit.List{k})
	if _, measured := tb.(*testing.B); measured {
		o = kittest.Strongest(o)
	}
	d, own, err := kit.OpenDriver(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		tb.Fatal(err)
	}
	s := &stage{conf: &conf{}, dir: defaultDir, base: base, root: rootfs.NewRoots(own, nil).Own()}
	s.open = opened(s.root.Dir, s.dir)
	return s, func() sandbox.Box {
		box, err := d.Start(tb.Context(), s.spec("snapshot", agon.Limits{WallMS: 600_000, CPUMilli: 2000, MemoryBytes: 1 << 30, Pids: 64, DiskBytes: 1 << 30, Inodes: 100_000}))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { box.Close() })
		return box
	}
}
