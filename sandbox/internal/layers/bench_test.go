package layers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

// BenchmarkOverlay measures a box's writable view of a tree of 200 MB in 10,000
// files, and its ratio to cp -a, taken in the same run.
func BenchmarkOverlay(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("LOUD: mounting needs root")
	}
	src, dst := b.TempDir(), filepath.Join(b.TempDir(), "copy")
	for i := range 10_000 {
		p := fmt.Sprintf("%s/d%d/f%d", src, i%100, i)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, bytes.Repeat([]byte{byte(i)}, 20_000), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	if out, err := exec.Command("cp", "-a", src, dst).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	copied := time.Since(start)
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sp, err := s.New(agon.Limits{DiskBytes: 256 << 20, Inodes: 32768}, 1000, 1000)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := sp.Add(sandbox.Mount{Kind: sandbox.MountOverlay, Source: src, Target: "/repo"}); err != nil {
			b.Fatal(err)
		}
		if err := sp.Close(); err != nil {
			b.Fatal(err)
		}
	}
	each := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(copied.Milliseconds()), "cp-ms")
	b.ReportMetric(float64(copied)/float64(each), "cp/overlay")
}
