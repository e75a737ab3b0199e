package sandboxtest

import (
	"context"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// bare1 runs print(1) by the interpreter of the root file system, without a box:
// what "python3" is on the host may be a script around another version.
func bare1(rootfs string) *osexec.Cmd {
	c := osexec.Command(rootfs+"/usr/bin/python3", "-I", "-c", "print(1)")
	c.Env = []string{"PYTHONHOME=" + rootfs + "/usr"}
	return c
}

// Benchmark measures start, print(1) and close of one box, and its ratio to bare
// python on this machine, taken in turn.
func Benchmark(b *testing.B, d sandbox.Driver, rootfs string) {
	src := b.TempDir()
	ctx := context.Background()
	var boxes, bare, started, ran, closed []time.Duration
	for b.Loop() {
		start := time.Now()
		box, err := d.Start(ctx, sandbox.Spec{Name: "bench", Rootfs: rootfs, Limits: limits(), Mounts: []sandbox.Mount{
			{Kind: sandbox.MountOverlay, Source: src, Target: "/repo"},
			{Kind: sandbox.MountScratch, Target: "/sandbox"},
		}, Doors: []sandbox.Door{{Listen: "127.0.0.1:80", Target: "http://127.0.0.1:1"}}})
		if err != nil {
			b.Fatal(err)
		}
		started = append(started, time.Since(start))
		phase := time.Now()
		var out strings.Builder
		e, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"python3", "-I", "-c", "print(1)"}, Stdout: &out})
		if err != nil || out.String() != "1\n" {
			b.Fatal(e, err, out.String())
		}
		ran = append(ran, time.Since(phase))
		phase = time.Now()
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
		closed = append(closed, time.Since(phase))
		boxes = append(boxes, time.Since(start))
		b.StopTimer()
		start = time.Now()
		if err := bare1(rootfs).Run(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(start))
		b.StartTimer()
	}
	for _, l := range [][]time.Duration{boxes, bare, started, ran, closed} {
		slices.Sort(l)
	}
	ms := func(l []time.Duration) float64 { return float64(l[len(l)/2].Microseconds()) / 1000 }
	b.ReportMetric(ms(boxes), "p50-ms")
	b.ReportMetric(ms(started), "start-ms")
	b.ReportMetric(ms(ran), "exec-ms")
	b.ReportMetric(ms(closed), "close-ms")
	// The quick ones, because a machine that does other things too delays many
	// processes more often than one.
	b.ReportMetric(float64(boxes[len(boxes)/10])/float64(bare[len(bare)/10]), "x-bare")
}
