package sandboxtest

import (
	"context"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox"
)

// Benchmark measures start, print(1) and close of one box.
func Benchmark(b *testing.B, d sandbox.Driver, rootfs string) {
	src := b.TempDir()
	ctx := context.Background()
	for b.Loop() {
		box, err := d.Start(ctx, sandbox.Spec{Name: "bench", Rootfs: rootfs, Limits: limits(), Mounts: []sandbox.Mount{
			{Kind: sandbox.MountOverlay, Source: src, Target: "/repo"},
			{Kind: sandbox.MountScratch, Target: "/sandbox"},
		}, Doors: []sandbox.Door{{Listen: "127.0.0.1:80", Target: "http://127.0.0.1:1"}}})
		if err != nil {
			b.Fatal(err)
		}
		var out strings.Builder
		e, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"python3", "-c", "print(1)"}, Stdout: &out})
		if err != nil || out.String() != "1\n" {
			b.Fatal(e, err, out.String())
		}
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
