// Package entry keeps the programs of ours that run in boxes: the first process
// of boxes with an OCI runtime, and the launcher of what stands beside an image.
// They are built from the sources embedded here by the go tool, within
// seconds, into the cache, because they have to be static and small.
package entry

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

//go:embed program/main.go
var source string

//go:embed launcher/main.go
var launcherSource string

// program is one of them: its file's name and its text.
type program struct{ file, source string }

var (
	first    = program{"entry", source}
	launcher = program{"launcher", launcherSource}
)

const (
	buildTimeout = 5 * time.Minute
	// systemDir is root's cache, which serves everybody.
	systemDir = "/var/cache/agon"
)

// ErrNoGo says that something has to be built and there is no go tool to do it.
var ErrNoGo = errors.New("no go tool")

// Cache returns the cache directory: dir if set, else $AGON_CACHE, else
// /var/cache/agon for root and the user's cache directory for others.
func Cache(dir string) string {
	if dir == "" {
		dir = os.Getenv("AGON_CACHE")
	}
	if dir == "" && os.Geteuid() == 0 {
		dir = systemDir
	}
	if dir == "" {
		d, err := os.UserCacheDir()
		if err != nil {
			d = os.TempDir()
		}
		dir = filepath.Join(d, "agon")
	}
	return dir
}

// Find returns the path of file in the directory called name of the first cache
// that has it: dir's, root's, the user's. It must be such that nobody else could
// have put it there.
func Find(dir, name string, files ...string) (string, bool) {
	bases := []string{Cache(dir), systemDir}
	if d, err := os.UserCacheDir(); err == nil {
		bases = append(bases, filepath.Join(d, "agon"))
	}
	for _, b := range bases {
		at := filepath.Join(b, name)
		ok := trusted(at)
		for _, f := range files {
			ok = ok && trusted(filepath.Join(at, f))
		}
		if ok {
			return at, true
		}
	}
	return "", false
}

// trusted tells whether only root or we can write p: whoever else could would run code as us.
func trusted(p string) bool {
	fi, err := os.Stat(p)
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode()&0o022 == 0 && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// Lock waits for the exclusive lock on path, or until ctx ends. What is built
// under it is for the error.
func Lock(ctx context.Context, path, what string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	select {
	case err := <-done:
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return func() { _ = f.Close() }, nil
	case <-ctx.Done():
		go func() { <-done; _ = f.Close() }() // the call cannot be called back; give the lock up when it comes
		return nil, fmt.Errorf("wait for another build of %s: %w", what, ctx.Err())
	}
}

// name of the directory, after everything that decides what the program is.
func (p program) name() string {
	h := sha256.Sum256([]byte("1\n" + runtime.GOARCH + "\n" + p.source))
	return p.file + "-" + hex.EncodeToString(h[:6])
}

// Ensure returns the path of the first process, building it first if no cache
// has it. Several processes may do so at once: it appears by one rename. Errors
// wrap ErrNoGo where there is no go tool.
func Ensure(ctx context.Context, dir string) (string, error) { return first.ensure(ctx, dir) }

// Launcher is Ensure for the launcher.
func Launcher(ctx context.Context, dir string) (string, error) { return launcher.ensure(ctx, dir) }

func (p program) ensure(ctx context.Context, dir string) (string, error) {
	file, name := p.file, p.name()
	if at, ok := Find(dir, name, file); ok {
		return filepath.Join(at, file), nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("%w: install Go 1.26 and run agon setup, or copy %s from a machine that has it", ErrNoGo, filepath.Join(Cache(dir), name))
	}
	if err := os.MkdirAll(Cache(dir), 0o755); err != nil {
		return "", fmt.Errorf("make cache directory: %w", err)
	}
	tmp, err := os.MkdirTemp(Cache(dir), ".entry-new-")
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := p.build(ctx, tool, tmp); err != nil {
		return "", err
	}
	out := filepath.Join(tmp, "out")
	final := filepath.Join(Cache(dir), name)
	if err := os.Rename(out, final); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", fmt.Errorf("publish %s: %w", file, err)
	}
	at, ok := Find(dir, name, file)
	if !ok {
		return "", fmt.Errorf("build %s: %s is not what it should be", file, final)
	}
	return filepath.Join(at, file), nil
}

func (p program) build(ctx context.Context, tool, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	for f, text := range map[string]string{"go.mod": "module entry\n\ngo 1.26\n", "main.go": p.source} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, tool, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(out, p.file), ".")
	cmd.Dir = dir
	// Flags of the caller (a race detector, a vendor directory, a workspace) are not for this build.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errs.String())
		return fmt.Errorf("build %s: %w: %s", p.file, err, text[max(0, len(text)-1000):])
	}
	return os.Chmod(filepath.Join(out, p.file), 0o755)
}
