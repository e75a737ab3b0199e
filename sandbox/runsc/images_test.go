package runsc

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/container"
	"github.com/agon-arena/agon/sandbox/internal/oci"
	"github.com/agon-arena/agon/sandbox/warm"
)

// ahead is a warm program that runs the source in its environment once it has waited.
const ahead = `
import sys, types
agon_warm = types.ModuleType("agon_warm")
exec(sys.argv[1], agon_warm.__dict__)
import os, random, time
agon_warm.wait()
sys.argv = ["-c", *os.environ.pop("AGON_ARGS", "").split("\n")[:-1]]
exec(compile(os.environ.pop("AGON_SOURCE"), "<string>", "exec"))
`

var hotEnv = []string{"PYTHONHASHSEED=0", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}

// hot is the warm program of tests.
func hot() *sandbox.Warm {
	return &sandbox.Warm{Args: []string{"python3", "-I", "-B", "-c", ahead, warm.Source}, Env: hotEnv}
}

// made tells whether a box was made of an image.
func made(b sandbox.Box) bool { return b.(*container.Box).Runtime.(*machine).image != nil }

// Imaged is a driver whose boxes are made of images, and whose untrusted Python programs
// run in what was warm there. What cannot have an image starts as ever.
type Imaged struct {
	*Driver
	T  testing.TB
	mu sync.Mutex
	n  int // boxes that were made of images
}

// Start implements sandbox.Driver.
func (d *Imaged) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if spec.Root || spec.Network || spec.Devices != nil {
		return d.Driver.Start(ctx, spec)
	}
	spec.Warm = hot()
	// A program that ran before leaves pages that the suites' 64 forks have no room for, in
	// boxes that were started, too.
	if spec.Limits.MemoryBytes == 256<<20 {
		spec.Limits.MemoryBytes += 64 << 20
	}
	for {
		b, err := d.Driver.Start(ctx, spec)
		if err != nil {
			return nil, err
		}
		if made(b) {
			d.mu.Lock()
			d.n++
			d.mu.Unlock()
			return &imagedBox{Box: b.(*container.Box)}, nil
		}
		if err := b.Close(); err != nil {
			return nil, err
		}
		d.images.mu.Lock()
		if d.images.begun == maxImages {
			d.images.all, d.images.begun = nil, 0
		}
		said := d.images.said
		d.images.mu.Unlock()
		if said {
			d.T.Errorf("no image could be made, or no box of it: %+v", spec.Mounts)
			d.images.mu.Lock()
			d.images.said = false
			d.images.mu.Unlock()
			return d.Driver.Start(ctx, spec)
		}
	}
}

// Made is how many boxes were made of images.
func (d *Imaged) Made() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

type imagedBox struct {
	*container.Box
	first sync.Once
}

// Exec implements sandbox.Box.
func (b *imagedBox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	b.first.Do(func() {
		if i := slices.Index(cmd.Args, "-c"); i > 0 && cmd.Args[0] == "python3" && cmd.Untrusted && cmd.UID == 0 {
			args := ""
			for _, a := range cmd.Args[i+2:] {
				args += a + "\n"
			}
			cmd.Env = append(slices.Clone(cmd.Env), "AGON_SOURCE="+cmd.Args[i+1], "AGON_ARGS="+args)
			cmd.Args = hot().Args
			return
		}
		// What waits would be a process more than the suites know of.
		_, _ = b.Box.Exec(ctx, sandbox.Cmd{Args: hot().Args, Env: []string{"AGON_SOURCE="}})
	})
	return b.Box.Exec(ctx, cmd)
}

// bundled describes a box as its bundle does, but for what lies on the host.
func bundled(s sandbox.Spec) *specs.Spec {
	return oci.Bundle(s, oci.Options{Root: "/r", Sources: make([]string, len(s.Mounts)), Group: "g", HostTmp: true, First: container.First(s, nil)})
}
