package play

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/coding/toolchain"
	"github.com/agon-arena/agon/sandbox"
)

// Where a toolchain of agon's own stands in a box, and its cache of what it has built.
const (
	chainDir = "/opt"
	cacheDir = "/work"
)

// needs names the toolchain that a runner's boxes have where the task names no image.
var needs = map[string]string{"go": "go", "node": "node", "jest": "node"}

// Toolchain names the toolchain of agon's own that a task is played by, "" for none.
func Toolchain(t *task.Task) string {
	if t.Config.Environment.Image != "" {
		return ""
	}
	return needs[t.Config.Agon.Runner]
}

// toolchain puts the programs of a runner in its boxes. An image brings its own.
func (k *Kind) toolchain(ctx context.Context, t *task.Task, l *language) error {
	goEnv := []string{"CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-mod=mod", "GOPATH=/tmp/go", "GOTMPDIR=/tmp", "GOMAXPROCS=2"}
	if t.Config.Environment.Image != "" {
		if l.runner == "go" {
			l.env = append(goEnv, "GOCACHE=/tmp/gocache")
		}
		if l.runner == "cargo" {
			l.env = []string{"CARGO_TARGET_DIR=/tmp/target", "CARGO_NET_OFFLINE=true"}
		}
		return nil
	}
	name := needs[l.runner]
	if name == "" {
		return fmt.Errorf("%w: %w: a task of %s names an image that has them", ErrGrader, errNoToolchain, l.runner)
	}
	dir, err := toolchain.Ensure(ctx, name, k.cfg.Toolchains, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoToolchain, err)
	}
	l.mounts = append(l.mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: filepath.Join(dir, "tree"), Target: chainDir, Exec: true})
	l.env = []string{"PATH=" + chainDir + "/bin:/usr/local/bin:/usr/bin:/bin"}
	if name == "go" {
		l.env = append(l.env, goEnv...)
		l.env = append(l.env, "GOROOT="+chainDir, "GOCACHE="+cacheDir)
		if cache := filepath.Join(dir, "cache"); isDirectory(cache) {
			l.mounts = append(l.mounts, sandbox.Mount{Kind: sandbox.MountOverlay, Source: cache, Target: cacheDir})
		} else {
			l.mounts = append(l.mounts, sandbox.Mount{Kind: sandbox.MountScratch, Target: cacheDir})
		}
	}
	return nil
}

func isDirectory(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.IsDir()
}
