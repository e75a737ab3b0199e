// Package libraries makes the Python libraries that an arena gives its agents: a
// list of packages locked by hash, which pip installs once, in a throw-away box
// whose only way out leads to the package index. Nothing of a package runs while
// it is installed. The tree is shared by all boxes and mounted read-only.
package libraries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/indexes"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Bounds.
const (
	MaxList     = 1 << 20 // bytes of a list
	maxPackages = 500
	maxTree     = 4 << 30 // bytes installed
	maxEntries  = 300_000
	buildTime   = 15 * time.Minute
)

// File is the name of a list in the tree that carries it.
const File = "requirements.txt"

// ErrList is a list that cannot be used, and why.
var ErrList = errors.New("bad list of libraries")

var (
	pinned = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:\[[A-Za-z0-9,._-]{1,100}\])?)==([A-Za-z0-9][A-Za-z0-9.!+_-]{0,63})$`)
	hashed = lazyregexp.New(`^--hash=sha256:[0-9a-f]{64}$`)
)

// Parse checks a list, "NAME==VERSION --hash=sha256:…" a package, and returns its
// packages as NAME==VERSION. Options of pip and addresses have no place in it.
func Parse(list []byte) (packages []string, err error) {
	if len(list) > MaxList {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrList, len(list), MaxList)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(list), "\r\n", "\n"), "\\\n", " ")
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if !pinned().MatchString(f[0]) {
			return nil, fmt.Errorf("%w: package %d, %.100q: want NAME==VERSION", ErrList, n+1, f[0])
		}
		if len(f) < 2 {
			return nil, fmt.Errorf("%w: %.100s has no hash: want --hash=sha256:…", ErrList, f[0])
		}
		for _, h := range f[1:] {
			if !hashed().MatchString(h) {
				return nil, fmt.Errorf("%w: %.100s: %.100q: want --hash=sha256: and 64 hex digits", ErrList, f[0], h)
			}
		}
		if packages = append(packages, f[0]); len(packages) > maxPackages {
			return nil, fmt.Errorf("%w: more than %d packages", ErrList, maxPackages)
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("%w: it names no package", ErrList)
	}
	slices.Sort(packages)
	return packages, nil
}

// Store keeps installed lists. Safe for concurrent use, by processes too.
type Store struct {
	// Dir holds them, each by its list and the tree whose Python it is for.
	Dir string
	// Own is the machine's own root file system.
	Own    string
	Driver sandbox.Driver
	Log    io.Writer // may be nil

	// getenv reads the operator's settings in tests; nil is os.Getenv.
	getenv func(string) string
}

// Ensure returns the directory of an installed list, which it makes first where
// it is not here. Errors wrap ErrList where the list is at fault.
func (s *Store) Ensure(ctx context.Context, list []byte) (string, error) {
	if _, err := Parse(list); err != nil {
		return "", err
	}
	h := sha256.Sum256(append([]byte(filepath.Base(s.Own)+"\n1\n"), list...))
	dir := filepath.Join(s.Dir, hex.EncodeToString(h[:12]))
	if _, err := os.Stat(dir); err == nil {
		return dir, rootfs.Used(dir, time.Now()) //nolint:forbidigo // a mark on the disk
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache of libraries: %w", err)
	}
	unlock, err := rootfs.Lock(ctx, filepath.Join(s.Dir, ".lock"), "libraries")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil { // made while we waited
		return dir, nil
	}
	if err := s.sweep(); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	if err := s.install(ctx, list, tmp); err != nil {
		return "", fmt.Errorf("install libraries: %w", err)
	}
	return dir, os.Rename(filepath.Join(tmp, "site"), dir)
}

// sweep removes what killed installs left.
func (s *Store) sweep() error {
	old, err := filepath.Glob(filepath.Join(s.Dir, ".new-*"))
	for _, p := range old {
		err = errors.Join(err, os.RemoveAll(p))
	}
	return err
}

func (s *Store) log() io.Writer {
	if s.Log == nil {
		return io.Discard
	}
	return s.Log
}

// install runs pip in a box and takes what it made.
func (s *Store) install(ctx context.Context, list []byte, tmp string) error {
	index, err := indexes.Serve(indexes.Config{Names: []string{indexes.Pip}, Getenv: s.getenv, Log: s.log()})
	if err != nil {
		return err
	}
	defer index.Close()
	shown, err := tempdir.Make("libraries")
	if err != nil {
		return err
	}
	defer os.RemoveAll(shown)
	if err := errors.Join(os.Chmod(shown, 0o755), os.WriteFile(filepath.Join(shown, File), list, 0o644)); err != nil {
		return err
	}
	box, err := s.Driver.Start(ctx, sandbox.Spec{
		Name: "libraries", Rootfs: s.Own, Env: append(index.Env("/agon"), "LANG=C.UTF-8", "TMPDIR=/work"),
		Doors: []sandbox.Door{{Listen: indexes.Door, Target: index.URL}},
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountReadOnly, Source: shown, Target: "/agon"},
			{Kind: sandbox.MountScratch, Target: "/work"},
		},
		Limits: agon.Limits{WallMS: buildTime.Milliseconds(), CPUMilli: 4000, MemoryBytes: 2 << 30, Pids: 128, DiskBytes: 2 * maxTree, Inodes: 2 * maxEntries, OutputBytes: maxTree},
	})
	if err != nil {
		return err
	}
	defer box.Close()
	var said tail
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{"python3", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", "/work/site", "-r", "/agon/" + File},
		Dir:  "/work", Stdout: io.MultiWriter(&said, s.log()), Stderr: &said,
	})
	switch text := plain.Short(strings.TrimSpace(string(said.b)), 600); {
	case err != nil:
		return err
	case x.Lost != "":
		return fmt.Errorf("%w: the box was ended: %s", sandbox.ErrHost, x.Lost)
	case x.Limit != "":
		return fmt.Errorf("%w: it reached the %s limit", ErrList, x.Limit)
	case strings.Contains(string(said.b), "DO NOT MATCH THE HASHES"):
		return fmt.Errorf("%w: the index has other bytes than the list: %s", ErrList, text)
	case x.Code != 0:
		return fmt.Errorf("pip: exit %d: %s", x.Code, text)
	}
	archive, err := os.Create(filepath.Join(tmp, "site.tar"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if x, err = box.Exec(ctx, sandbox.Cmd{Args: []string{"tar", "-C", "/work/site", "-cf", "-", "."}, Dir: "/", Stdout: archive}); err != nil || x.Code != 0 {
		return fmt.Errorf("take what pip made: exit %d %s: %w", x.Code, x.Limit, err)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	site := filepath.Join(tmp, "site")
	if err := os.Mkdir(site, 0o755); err != nil {
		return err
	}
	return rootfs.Unpack(site, archive, maxTree, maxEntries)
}

// tail keeps the end of what is written, by both streams of a command at once.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu while the command runs
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - 8192; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

// Mount shows an installed list to the agents' Python of a root file system,
// where that looks for packages by itself; programs of the image see nothing of it.
func Mount(root, dir string) (sandbox.Mount, []string, error) {
	m := sandbox.Mount{Kind: sandbox.MountReadOnly, Source: dir, Exec: true, Shared: true}
	r, err := os.OpenRoot(root)
	if err != nil {
		return m, nil, err
	}
	defer r.Close()
	for _, at := range []struct{ lib, site string }{{"opt/agon/lib", "opt/agon/local/lib"}, {"usr/lib", "usr/local/lib"}} {
		found, err := fs.Glob(r.FS(), at.lib+"/python3.*")
		if err != nil || len(found) != 1 {
			continue
		}
		m.Target = "/" + at.site + "/" + filepath.Base(found[0]) + "/dist-packages"
		return m, nil, nil
	}
	m.Target = "/opt/agon-libraries" // of another maker: by the environment
	return m, []string{"PYTHONPATH=" + m.Target}, nil
}

// Of finds a list: one that ships, by its name, or a file. dir is where a
// relative path begins.
func Of(name, dir string, shipped map[string][]byte) ([]byte, error) {
	if b, ok := shipped[name]; ok {
		return b, nil
	}
	if !strings.ContainsAny(name, "/.") {
		return nil, fmt.Errorf("%w: %.100q: want one of %s, or a file", ErrList, name, strings.Join(slices.Sorted(maps.Keys(shipped)), ", "))
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrList, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxList+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrList, err)
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), nil
}
