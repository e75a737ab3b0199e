package rootfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// layerDir is where agon's own programs stand beside an image, in its tree.
// The launcher (sandbox/internal/entry) knows it too.
const layerDir = "opt/agon"

// layerVersion changes whenever addLayer changes what it does to a tree.
const layerVersion = 1

// ownPrograms are the programs of agon's layer: of the agent, of the harness and
// for a shell without an image's. What a machine's own tree lacks is left out.
var ownPrograms = []string{
	"python3", "python", "git", "sh", "bash", "patch", "diff", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "env", "find", "grep", "head",
	"ls", "ln", "mkdir", "mktemp", "mv", "pwd", "readlink", "realpath", "rm", "rmdir", "sed", "sleep", "sort", "tail", "tar", "gzip", "touch", "tr", "uniq", "wc", "xargs",
}

// ownInterp is the loader of agon's layer. It has to be no longer than the path
// that programs are linked with, for withInterp.
const ownInterp = "/" + layerDir + "/lib/ld.so"

// layerName tells layers apart: of which tree they are, and by which rules.
func layerName(own string) string {
	h := sha256.Sum256([]byte(fmt.Sprintf("%d\n%s\n%s", layerVersion, filepath.Base(own), strings.Join(ownPrograms, " "))))
	return hex.EncodeToString(h[:6])
}

// addLayer puts programs of the tree own, with their libraries and a loader, and
// the launcher by which they are started, into tree. Files are links where both
// trees lie in one file system.
func addLayer(tree, own, launcher string) error {
	dst, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer dst.Close()
	// Whatever an image has there gives way.
	if err := dst.RemoveAll(layerDir); err != nil {
		return fmt.Errorf("make room for agon's layer: %w", err)
	}
	for _, d := range []string{"bin", "lib/git-core", "libexec", "share/git-core"} {
		if err := dst.MkdirAll(path.Join(layerDir, d), 0o755); err != nil {
			return fmt.Errorf("make agon's layer: %w", err)
		}
	}
	at := filepath.Join(tree, layerDir)
	src, err := os.OpenRoot(own)
	if err != nil {
		return err
	}
	defer src.Close()
	libs, err := fs.Glob(src.FS(), "usr/lib/*-linux-gnu*")
	if err != nil || len(libs) != 1 {
		return fmt.Errorf("%w: %s has no directory of libraries", ErrUnsupported, own)
	}
	pythons, _ := fs.Glob(src.FS(), "usr/lib/python3*")
	for _, d := range append(pythons, libs[0], "usr/share/git-core/templates") {
		if err := linkTree(filepath.Join(own, d), filepath.Join(at, strings.TrimPrefix(d, "usr/"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("link %s: %w", d, err)
		}
	}
	if err := os.Symlink(path.Base(libs[0]), filepath.Join(at, "lib", "libs")); err != nil {
		return err
	}
	loaders, _ := fs.Glob(src.FS(), libs[0]+"/ld-linux*.so.*")
	if len(loaders) != 1 {
		return fmt.Errorf("%w: %s has no loader", ErrUnsupported, own)
	}
	if err := linkFile(filepath.Join(own, loaders[0]), filepath.Join(tree, ownInterp)); err != nil {
		return err
	}
	for _, name := range ownPrograms {
		p := find(src, name)
		if p == "" {
			continue
		}
		if err := linkFile(filepath.Join(own, p), filepath.Join(at, "libexec", name)); err != nil {
			return err
		}
		if err := linkFile(launcher, filepath.Join(at, "bin", name)); err != nil {
			return err
		}
	}
	if err := linkFile(launcher, filepath.Join(at, "lib/git-core/git")); err != nil {
		return err
	}
	if !executable(dst, "bin/sh") {
		if err := dst.MkdirAll("bin", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		_ = dst.Remove("bin/sh")
		if err := dst.Symlink("/"+layerDir+"/bin/sh", "bin/sh"); err != nil {
			return fmt.Errorf("give the image a shell: %w", err)
		}
	}
	return nil
}

// where programs of images stand, in the order of the boxes' PATH.
var binDirs = []string{"usr/local/bin", "usr/bin", "bin"}

// find returns where a tree has a program, after links; "" if nowhere.
func find(root *os.Root, name string) string {
	for _, d := range binDirs {
		if p := resolve(root, path.Join(d, name)); p != "" {
			return p
		}
	}
	return ""
}

// linkTree makes dst like src: directories, links, and regular files as hard links.
func linkTree(src, dst string) error {
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(link, to)
		case d.Type().IsRegular():
			return linkFile(p, to)
		}
		return nil
	})
}

// linkFile is a hard link, or a copy with the same mode where there can be none.
func linkFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	fi, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := copyFile(from, to); err != nil {
		return err
	}
	return os.Chmod(to, fi.Mode()&fs.ModePerm)
}

// withInterp is an ELF program with another loader, whose path must not be
// longer than the present one.
func withInterp(program []byte, interp string) ([]byte, error) {
	const old = "ld-linux"
	// The first path of a loader in a program is the one in its PT_INTERP.
	i := bytes.Index(program, []byte(old))
	if i < 0 || !bytes.HasPrefix(program, []byte("\x7fELF")) {
		return nil, fmt.Errorf("%w: the interpreter is not a program with a loader", ErrUnsupported)
	}
	start := bytes.LastIndexByte(program[:i], 0) + 1
	end := i + bytes.IndexByte(program[i:], 0)
	if end < i || start >= end || program[start] != '/' || len(interp) > end-start {
		return nil, fmt.Errorf("%w: the interpreter's loader cannot be set", ErrUnsupported)
	}
	out := slices.Clone(program)
	clear(out[start:end])
	copy(out[start:], interp)
	return out, nil
}
