package gpu

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Bounds of a tree of libraries.
const (
	maxLibraries    = 256
	maxLibraryBytes = 4 << 30 // all together
)

var libraryName = lazyregexp.New(`^lib[A-Za-z0-9_.+-]{1,120}\.so(\.[0-9.]+)?$`)

// libraryTree makes a directory of the shared libraries among files of the host, and
// of the names under which programs ask the loader for them. It is what the loader's
// cache and links would be if a hook wrote them into the box. Other files that a CDI
// file mounts (programs, firmware, sockets of daemons) are not shown.
//
// The directory is named by what it holds and never changes; it is complete before it
// has its name.
func (n *Nvidia) libraryTree(files []string) (string, error) {
	type lib struct {
		from, name, soname string
	}
	var libs []lib
	sum, total := sha256.New(), int64(0)
	for _, f := range files {
		name := path.Base(f)
		if !libraryName().MatchString(name) {
			continue
		}
		real := path.Join(n.c.Root, f)
		fi, err := os.Stat(real)
		if err != nil || !fi.Mode().IsRegular() {
			return "", fmt.Errorf("library %s of the CDI file: %w", f, errors.Join(err, os.ErrInvalid))
		}
		if total += fi.Size(); len(libs) == maxLibraries || total > maxLibraryBytes {
			return "", fmt.Errorf("the CDI file mounts over %d libraries or %d bytes of them", maxLibraries, int64(maxLibraryBytes))
		}
		if slices.ContainsFunc(libs, func(l lib) bool { return l.name == name }) {
			continue // of another architecture or directory: the first is the loader's, too
		}
		soname, err := sonameOf(real)
		if err != nil {
			continue // not a library of this machine's architecture
		}
		libs = append(libs, lib{real, name, soname})
		fmt.Fprintf(sum, "%s %s %d %d\n", real, soname, fi.Size(), fi.ModTime().UnixNano())
	}
	if len(libs) == 0 {
		return "", errors.New("the CDI file mounts no library of the driver")
	}
	dir := filepath.Join(n.c.Libraries, "nvidia-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(n.c.Libraries, 0o755); err != nil {
		return "", fmt.Errorf("make library tree: %w", err)
	}
	tmp, err := os.MkdirTemp(n.c.Libraries, "new-")
	if err != nil {
		return "", fmt.Errorf("make library tree: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // boxes' users read it
		return "", fmt.Errorf("make library tree: %w", err)
	}
	for _, l := range libs {
		if err := copyLibrary(l.from, filepath.Join(tmp, l.name)); err != nil {
			return "", fmt.Errorf("make library tree: %w", err)
		}
		plain, _, _ := strings.Cut(l.name, ".so")
		for _, alias := range []string{l.soname, plain + ".so"} {
			if alias != l.name && libraryName().MatchString(alias) {
				_ = os.Symlink(l.name, filepath.Join(tmp, alias)) // one that is there stays
			}
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, serr := os.Stat(dir); serr == nil {
			return dir, nil // another process was quicker
		}
		return "", fmt.Errorf("make library tree: %w", err)
	}
	return dir, nil
}

// copyLibrary copies a file of the host; a hard link would let a box's mount share the
// host's inode, and mostly stands on another file system.
func copyLibrary(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // boxes' users execute it
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// sonameOf is the name under which programs ask for a shared library of this
// machine's architecture.
func sonameOf(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if f.Type != elf.ET_DYN || f.Machine != hostMachine() {
		return "", errors.New("not a shared library of this machine")
	}
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return path.Base(file), nil //nolint:nilerr // it has none: its file name is what programs ask for
	}
	return names[0], nil
}
