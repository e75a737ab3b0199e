package layers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/internal/disk"
	"github.com/agon-arena/agon/sandbox"
)

// ReadFile reads a regular file below a writable mount, as sandbox.Box says.
// The tree is hostile and may change meanwhile: every step goes through one
// os.Root, the type is checked on the open descriptor, and nothing blocks.
func (sp *Space) ReadFile(p string, limit int64) ([]byte, error) {
	sp.mu.Lock()
	if sp.closed {
		sp.mu.Unlock()
		return nil, fmt.Errorf("%w: the box is closed", sandbox.ErrNotExist)
	}
	i, rel := sp.find(path.Clean(p), true)
	if i < 0 {
		sp.mu.Unlock()
		return nil, fmt.Errorf("%w: %.200s lies in no writable mount", sandbox.ErrUnsafe, p)
	}
	root, err := os.OpenRoot(sp.mounts[i].path)
	sp.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", sandbox.ErrHost, sp.mounts[i].Target, err)
	}
	defer func() { _ = root.Close() }()
	return readRegular(root, rel, limit)
}

func readRegular(root *os.Root, rel string, limit int64) ([]byte, error) {
	unsafe := func(why string) error { return fmt.Errorf("read %.200s: %w: %s", rel, sandbox.ErrUnsafe, why) }
	fi, err := root.Lstat(rel)
	if err != nil {
		// A link or a file in the middle of the path is the agent's doing too.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil, fmt.Errorf("read %.200s: %w", rel, sandbox.ErrNotExist)
		}
		return nil, unsafe(err.Error())
	}
	if !fi.Mode().IsRegular() {
		return nil, unsafe("not a regular file")
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read %.200s: %w", rel, sandbox.ErrNotExist)
		}
		return nil, unsafe(err.Error())
	}
	defer func() { _ = f.Close() }()
	if fi, err = f.Stat(); err != nil {
		return nil, unsafe(err.Error())
	}
	if !fi.Mode().IsRegular() {
		return nil, unsafe("not a regular file")
	}
	if fi.Size() > limit {
		return nil, unsafe(fmt.Sprintf("more than %d bytes", limit))
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, unsafe(err.Error())
	}
	if int64(len(b)) > limit {
		return nil, unsafe(fmt.Sprintf("more than %d bytes", limit))
	}
	return b, nil
}

// Usage counts what the box wrote, for quotas that the kernel does not
// enforce. A tree too deep to walk counts as full.
func (sp *Space) Usage() (bytes, inodes int64) {
	err := filepath.WalkDir(sp.pool.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, unix.ENAMETOOLONG) {
				return err
			}
			return nil
		}
		inodes++
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		return 1 << 60, 1 << 60
	}
	return bytes, inodes
}

// HostFree is the room left on the disk that soft quotas lie on.
func (sp *Space) HostFree() int64 {
	free, _, err := disk.Room(sp.pool.dir)
	if err != nil {
		return 1 << 60
	}
	return free
}

// Bounds of one copied tree.
const (
	maxCopyEntries = 500_000
	maxCopyDepth   = 200
)

// copyTree copies directories, regular files and links from src into the empty
// directory dst; other files are left out. Links are copied, never followed.
// uid and gid own the copies, -1 leaves them to this process.
func copyTree(src, dst string, uid, gid int) error {
	from, err := os.OpenRoot(src)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	n := 0
	own := func(p string) error {
		if uid < 0 {
			return nil
		}
		return to.Lchown(p, uid, gid)
	}
	if err := own("."); err != nil {
		return err
	}
	return fs.WalkDir(from.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == "." {
			return nil
		}
		if n++; n > maxCopyEntries || strings.Count(p, "/") > maxCopyDepth {
			return fmt.Errorf("%w: %s is too large to copy", sandbox.ErrSpec, src)
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			err = to.Mkdir(p, fi.Mode().Perm()|0o700)
		case d.Type()&fs.ModeSymlink != 0:
			var text string
			if text, err = from.Readlink(p); err == nil {
				err = to.Symlink(text, p)
			}
		case d.Type().IsRegular():
			err = copyFile(from, to, p, fi)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return own(p)
	})
}

func copyFile(from, to *os.Root, p string, fi fs.FileInfo) error {
	in, err := from.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := to.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fi.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	err = copyData(in, out, fi.Size())
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return to.Chtimes(p, fi.ModTime(), fi.ModTime())
}

// copyData copies what is really there: a sparse file must not grow to its
// length on our disk.
func copyData(in, out *os.File, size int64) error {
	for off := int64(0); off < size; {
		data, err := in.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			break
		}
		if err != nil {
			return err
		}
		hole, err := in.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, hole-data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		off = hole
	}
	return out.Truncate(size)
}

const ownerFile = "owner"

// ownedDir makes a directory that is marked as this process's from the moment
// it has its name, so that another process's Sweep leaves it alone.
func ownedDir(dir string) error {
	tmp := filepath.Join(filepath.Dir(dir), newPrefix+filepath.Base(dir))
	if err := os.Mkdir(tmp, 0o711); err != nil {
		return err
	}
	pid := os.Getpid()
	err := os.WriteFile(filepath.Join(tmp, ownerFile), fmt.Appendf(nil, "%d %s\n", pid, startTime(pid)), 0o600)
	if err == nil {
		err = os.Chmod(tmp, 0o711) // whatever the umask said
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		_ = removeAll(tmp)
	}
	return err
}

// ownerAlive tells whether the process that made dir still runs.
func ownerAlive(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err != nil {
		return false
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return false
	}
	pid, err := strconv.Atoi(f[0])
	return err == nil && startTime(pid) == f[1]
}

// startTime is field 22 of /proc/PID/stat, which tells processes with one number apart.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	_, rest, _ := strings.Cut(string(b), ") ") // a name with ") " in it is not one of ours
	f := strings.Fields(rest)
	if len(f) < 20 {
		return "gone"
	}
	return f[19]
}

// Leftovers lists the boxes below stateDir whose process is dead.
func Leftovers(stateDir string) ([]string, error) {
	s, err := place(stateDir)
	if err != nil {
		return nil, err
	}
	ids, err := s.leftovers()
	return slices.Sorted(maps.Keys(ids)), err
}

func (s *Store) leftovers() (map[string]bool, error) {
	ids := map[string]bool{}
	for _, base := range []string{s.data, s.mnt} {
		ents, err := os.ReadDir(base)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return nil, fmt.Errorf("read state directory: %w", err)
		}
		for _, e := range ents {
			if idRE().MatchString(e.Name()) && e.IsDir() && !ownerAlive(filepath.Join(base, e.Name())) {
				ids[e.Name()] = true
			}
		}
	}
	return ids, nil
}

// Sweep removes the boxes below stateDir whose process is dead: mounts,
// directories, and whatever end removes by box id (processes, cgroups). It
// returns how many boxes it removed.
func Sweep(stateDir string, end func(id string) error) (int, error) {
	s, err := place(stateDir)
	if err != nil {
		return 0, err
	}
	ids, err := s.leftovers()
	if err != nil {
		return 0, err
	}
	var errs error
	for id := range ids {
		if end != nil {
			errs = errors.Join(errs, end(id))
		}
		for _, base := range []string{s.data, s.mnt} {
			errs = errors.Join(errs, s.clear(filepath.Join(base, id)))
		}
	}
	errs = errors.Join(errs, s.sweepNew(s.data), s.sweepNew(s.mnt))
	return len(ids), errs
}

// newPrefix marks a box's directory until its owner stands in it.
const newPrefix = ".new-"

// sweepNew removes directories whose maker was killed before they had their names.
func (s *Store) sweepNew(base string) (errs error) {
	ents, _ := os.ReadDir(base) // what is not there has nothing to sweep
	for _, e := range ents {
		if id, ok := strings.CutPrefix(e.Name(), newPrefix); ok && Abandoned(id) {
			errs = errors.Join(errs, removeAll(filepath.Join(base, e.Name())))
		}
	}
	return errs
}

func (s *Store) clear(dir string) error {
	if s.root {
		if err := unmountBelow(dir); err != nil {
			return err
		}
	}
	return removeAll(dir)
}

// SweepRun removes the mounts of dead boxes of every state directory of this
// machine, which may be gone itself, as Sweep does for one.
func SweepRun(stateDir string, end func(id string) error) (n int, errs error) {
	s, err := place(stateDir)
	if err != nil || !s.root {
		return 0, err
	}
	homes, err := filepath.Glob(filepath.Join(runDir, "*"))
	if err != nil {
		return 0, err
	}
	for _, home := range homes {
		errs = errors.Join(errs, s.sweepNew(home))
		boxes, err := os.ReadDir(home)
		if err != nil {
			continue // another sweep removed it
		}
		for _, b := range boxes {
			dir := filepath.Join(home, b.Name())
			if !idRE().MatchString(b.Name()) || !b.IsDir() || ownerAlive(dir) {
				continue
			}
			n++
			if end != nil {
				errs = errors.Join(errs, end(b.Name()))
			}
			errs = errors.Join(errs, s.clear(dir))
		}
		if home != s.mnt {
			_ = os.Remove(home) // stays while anything is in it
		}
	}
	return n, errs
}

// unmountBelow detaches every mount below dir, the last one first.
func unmountBelow(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	var errs error
	for i := len(points) - 1; i >= 0; i-- {
		errs = errors.Join(errs, unmount(points[i]))
	}
	return errs
}
