// Package layers prepares what a box may read and write on the host: overlays,
// scratch directories, read-only binds and the layers that one box leaves to
// another. It is the only code that mounts, and it removes what it mounted.
//
// As root everything is a mount below a directory that other users may pass
// through, and files of the caller appear in the box as the command user's by
// an id-mapped mount: nothing is copied and nothing of the caller's is changed.
// Without root the same calls copy.
package layers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/tree"
)

// HostBase is the host uid and gid that a box's 0 is mapped to when boxes are
// made by root; Span is how many ids follow it.
const (
	HostBase = 200_000
	Span     = 65_536
)

// ownBytes and ownNodes bound the memory file system of a box's own files.
const (
	ownBytes = 4 << 20
	ownNodes = 1024
)

// maxTmpfs is the largest DiskBytes kept in memory. Larger quotas lie on the
// host's disk and are polled instead of enforced by the kernel.
const maxTmpfs = 1 << 30

// runDir holds mount points of boxes whose state directory others may not pass through.
const runDir = "/run/agon"

var (
	cleanPath = lazyregexp.New(`^/[A-Za-z0-9._/+@-]+$`)
	idRE      = lazyregexp.New(`^b[0-9a-f]{12}([0-9a-f]{12})?$`) // the short form is of older versions
)

// Store makes spaces. Safe for concurrent use.
type Store struct {
	data string // box directories with what lies on disk
	mnt  string // mount points; equal to data where that can be passed through
	root bool

	ids idmaps

	mu   sync.Mutex // guards what follows
	pool map[string]*storage
}

// Open prepares stateDir for boxes; it is created if absent. Errors wrap
// sandbox.ErrHost and tell the mend.
func Open(stateDir string) (*Store, error) {
	s, err := place(stateDir)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{s.data, s.mnt} {
		if err := os.MkdirAll(d, 0o711); err != nil {
			return nil, fmt.Errorf("%w: make state directory: %w", sandbox.ErrHost, err)
		}
		if s.root {
			if err := os.Chmod(d, 0o711); err != nil {
				return nil, fmt.Errorf("%w: open state directory: %w", sandbox.ErrHost, err)
			}
		}
	}
	return s, nil
}

// MountDir is where the boxes of a state directory are mounted.
func MountDir(stateDir string) (string, error) {
	s, err := place(stateDir)
	if err != nil {
		return "", err
	}
	return s.mnt, nil
}

// place decides where things lie, without touching anything.
func place(stateDir string) (*Store, error) {
	abs, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("%w: state directory: %w", sandbox.ErrHost, err)
	}
	if r, err := filepath.EvalSymlinks(abs); err == nil {
		abs = r
	}
	if !cleanPath().MatchString(abs) {
		return nil, fmt.Errorf("%w: state directory %q: use only letters, digits and ._+@-", sandbox.ErrHost, abs)
	}
	s := &Store{data: filepath.Join(abs, "boxes"), root: os.Geteuid() == 0, pool: map[string]*storage{}}
	s.mnt = s.data
	if s.root && !passable(abs) {
		// A box's runtime enters its mounts as another user, so every
		// directory above them must let that user through.
		h := sha256.Sum256([]byte(abs))
		s.mnt = filepath.Join(runDir, hex.EncodeToString(h[:6]))
	}
	return s, nil
}

// passable tells whether others may pass through dir, or through its nearest
// existing parent.
func passable(dir string) bool {
	for d := dir; ; d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err == nil && fi.Mode()&0o001 == 0 {
			return false
		}
		if d == "/" {
			return true
		}
	}
}

// Root tells whether the store mounts (true) or copies.
func (s *Store) Root() bool { return s.root }

// Space is the file system side of one box.
type Space struct {
	ID string

	s    *Store
	dir  string // on disk
	mnt  string // for mounts
	own  string // what is ours alone: mount points, small files; a memory file system where we may mount
	uid  int    // host ids of the command user
	gid  int
	lim  agon.Limits
	pool *storage

	mu     sync.Mutex // guards what follows
	mounts []entry
	pins   []pin
	root   string // writable layer of the root file system, if it has one
	n      int
	closed bool
}

// entry is one mount of the box that the host can look into.
type entry struct {
	sandbox.Mount
	path  string // host path of what the box sees
	upper string // host path of the writable layer
	// inside says that the mount is a plain directory of the writable mount
	// around it: hostile code may have moved it, so it is looked up there.
	inside bool
	below  []string
	lower  string // source of the lowest layer, may be empty
}

// pin is a mount point that hostile code can move before a command binds to it.
type pin struct {
	path, rel string
	dir       bool
}

// storage holds writable layers. It lives until neither its box nor a layer
// made from it needs it.
type storage struct {
	dir  string
	refs int
	deps []*storage // layers below ours
	free func() error
}

// newID names a box. The name tells which process of which pid namespace made
// it, so that what it left can be known as left where its directory is gone too.
func newID() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return idPrefix(os.Getpid()) + hex.EncodeToString(b[:])
}

func idPrefix(pid int) string {
	ns, _ := os.Readlink("/proc/self/ns/pid")
	space := sha256.Sum256([]byte(ns))
	start := sha256.Sum256([]byte(startTime(pid)))
	return fmt.Sprintf("b%x%08x%x", space[:2], pid, start[:3])
}

// Abandoned tells whether id names a box whose process is gone. Boxes of other
// pid namespaces, as of another container on this host, are never called so.
func Abandoned(id string) bool {
	if !idRE().MatchString(id) || len(id) < 25 {
		return false
	}
	ours := idPrefix(os.Getpid())
	pid, err := strconv.ParseInt(id[5:13], 16, 32)
	return err == nil && id[:5] == ours[:5] && !strings.HasPrefix(id, idPrefix(int(pid)))
}

// New makes the space of a box. uid and gid are those inside. On error nothing is left.
func (s *Store) New(lim agon.Limits, uid, gid int) (_ *Space, err error) {
	sp := &Space{ID: newID(), s: s, lim: lim, uid: os.Geteuid(), gid: os.Getegid()}
	if s.root {
		sp.uid, sp.gid = HostBase+uid, HostBase+gid
	}
	sp.dir, sp.mnt = filepath.Join(s.data, sp.ID), filepath.Join(s.mnt, sp.ID)
	defer func() {
		if err != nil {
			_ = sp.Close()
			err = fmt.Errorf("%w: prepare box: %w", sandbox.ErrHost, err)
		}
	}()
	if err := os.MkdirAll(s.mnt, 0o711); err != nil { // Close removes it when empty
		return nil, err
	}
	if err := ownedDir(sp.dir); err != nil {
		return nil, err
	}
	if sp.mnt != sp.dir {
		// Another process's Sweep removes it when it is empty.
		if err := os.MkdirAll(s.mnt, 0o711); err != nil {
			return nil, err
		}
		if err := ownedDir(sp.mnt); err != nil {
			return nil, err
		}
	}
	// Making and removing a dozen small files and directories on a disk takes
	// longer than mounting a file system for them, and one call takes away both
	// it and all that is mounted in it.
	sp.own = sp.dir
	if s.root {
		o := filepath.Join(sp.mnt, "o")
		if err := os.Mkdir(o, 0o711); err != nil {
			return nil, err
		}
		opt := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711", ownBytes, ownNodes)
		if err := unix.Mount("tmpfs", o, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opt); err != nil {
			return nil, fmt.Errorf("mount tmpfs: %w", err)
		}
		sp.own = o
		if err := os.Mkdir(sp.Dir(), 0o700); err != nil {
			return nil, err
		}
	}
	w := filepath.Join(sp.mnt, "w")
	if !sp.tmpfs() {
		w = filepath.Join(sp.dir, "w")
	}
	if err := os.Mkdir(w, 0o711); err != nil {
		return nil, err
	}
	st := &storage{dir: w, refs: 1}
	if sp.tmpfs() {
		// 16 inodes a mount are for our own directories.
		opt := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711", lim.DiskBytes, lim.Inodes+1024)
		if err := unix.Mount("tmpfs", w, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opt); err != nil {
			return nil, fmt.Errorf("mount tmpfs: %w", err)
		}
		st.free = func() error { return unmount(w) }
	}
	sp.pool = st
	s.mu.Lock()
	s.pool[w] = st
	s.mu.Unlock()
	return sp, nil
}

// tmpfs tells whether the kernel enforces the quota.
func (sp *Space) tmpfs() bool { return sp.s.root && sp.lim.DiskBytes <= maxTmpfs }

// Soft tells whether DiskBytes and Inodes must be polled with Usage.
func (sp *Space) Soft() bool { return !sp.tmpfs() }

// Dir is a private directory for small files of ours.
func (sp *Space) Dir() string {
	if sp.own == sp.dir {
		return sp.dir
	}
	return filepath.Join(sp.own, "b")
}

// MountDir is a directory that mapped users may pass through. What is mounted in
// it goes with the space.
func (sp *Space) MountDir() string { return sp.own }

// HostIDs returns the host uid and gid of the box's command user.
func (sp *Space) HostIDs() (uid, gid int) { return sp.uid, sp.gid }

// next makes an empty directory for a mount or a layer.
func (sp *Space) next(base string) (string, error) {
	sp.n++
	d := filepath.Join(base, fmt.Sprintf("m%d", sp.n))
	return d, os.Mkdir(d, 0o711)
}

// Add prepares one mount and returns the host path to bind, recursively, at its
// target. An empty path means that it comes with the mount that the target lies
// in. Errors wrap sandbox.ErrSpec or sandbox.ErrHost.
func (sp *Space) Add(m sandbox.Mount) (string, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	e := entry{Mount: m}
	path, err := sp.add(&e)
	if err != nil {
		return "", hostOrSpec(fmt.Sprintf("mount %s", m.Target), err)
	}
	sp.mounts = append(sp.mounts, e)
	return path, nil
}

func (sp *Space) add(e *entry) (string, error) {
	i, rel := sp.find(e.Target, false)
	if i < 0 {
		err := sp.fill(e, "")
		return e.path, err
	}
	in := sp.mounts[i]
	root, err := os.OpenRoot(in.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	if in.Kind == sandbox.MountReadOnly {
		if _, err := root.Stat(rel); err != nil {
			return "", fmt.Errorf("%w: %s is read-only and has no %s", sandbox.ErrSpec, in.Target, rel)
		}
		err := sp.fill(e, "")
		return e.path, err
	}
	dir := true
	if e.Kind == sandbox.MountReadOnly {
		fi, err := os.Stat(e.Source)
		if err != nil {
			return "", err
		}
		dir = fi.IsDir()
	}
	if err := sp.mountPoint(root, rel, dir); err != nil {
		return "", err
	}
	at := filepath.Join(in.path, rel)
	switch {
	case sp.s.root:
		// Mounted here and now, before anything hostile runs: later the way to
		// the mount point is in its hands. It goes with the mount around it.
		if err := sp.fill(e, ""); err != nil {
			return "", err
		}
		return "", unix.Mount(e.path, at, "", unix.MS_BIND|unix.MS_REC, "")
	case e.Kind == sandbox.MountReadOnly:
		sp.pins = append(sp.pins, pin{in.path, rel, dir})
		err := sp.fill(e, "")
		return e.path, err
	}
	e.inside = true
	return "", sp.fill(e, at)
}

// fill makes what the box sees; at, if set, is the directory to use.
func (sp *Space) fill(e *entry, at string) (err error) {
	switch e.Kind {
	case sandbox.MountReadOnly:
		e.path, err = sp.readOnly(e.Mount)
	case sandbox.MountScratch:
		e.path, err = sp.ownDir(at)
		e.upper = e.path
	case sandbox.MountTmp:
		e.path, err = sp.tmp(e.SizeBytes, at)
	case sandbox.MountOverlay:
		e.lower = e.Source
		err = sp.overlay(e, at)
	case sandbox.MountLayer:
		e.lower, e.below = e.Layer.Lower, strings.Split(e.Layer.Dir, ":")
		if err = sp.adopt(e.below); err == nil {
			err = sp.overlay(e, at)
		}
	default:
		err = fmt.Errorf("%w: mount kind %q", sandbox.ErrSpec, e.Kind)
	}
	return err
}

// Pinned tells whether Repin has to be called, with no command running, before
// each command that binds what Add returned.
func (sp *Space) Pinned() bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return len(sp.pins) > 0
}

// Repin makes sure that mount points in writable mounts are what they were,
// not links to elsewhere.
func (sp *Space) Repin() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, p := range sp.pins {
		root, err := os.OpenRoot(p.path)
		if err != nil {
			return err
		}
		err = sp.mountPoint(root, p.rel, p.dir)
		_ = root.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// hostOrSpec says whose mistake a failure is: a missing source is the caller's.
func hostOrSpec(what string, err error) error {
	switch {
	case errors.Is(err, sandbox.ErrSpec), errors.Is(err, sandbox.ErrHost):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s: %w", sandbox.ErrSpec, what, err)
	}
	return fmt.Errorf("%w: %s: %w", sandbox.ErrHost, what, err)
}

// ownDir makes a directory of the command user in the quota, or takes at.
func (sp *Space) ownDir(at string) (string, error) {
	if at != "" {
		return at, nil
	}
	d, err := sp.ownDirPlain()
	if err == nil && sp.s.root && !sp.tmpfs() {
		// A mount of its own: reachable, and what is mounted in it goes with it.
		return sp.bind(d, unix.MS_NOSUID|unix.MS_NODEV)
	}
	return d, err
}

// tmp makes a memory file system on the host, or a directory in the quota
// where we may not mount.
func (sp *Space) tmp(size int64, at string) (string, error) {
	if !sp.s.root {
		d, err := sp.ownDir(at)
		if err != nil {
			return "", err
		}
		return d, os.Chmod(d, 0o777|os.ModeSticky)
	}
	p, err := sp.next(sp.own)
	if err != nil {
		return "", err
	}
	opt := fmt.Sprintf("size=%d,nr_inodes=%d,mode=1777,uid=%d,gid=%d", size, max(sp.lim.Inodes, 64), sp.uid, sp.gid)
	if err := unix.Mount("tmpfs", p, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opt); err != nil {
		return "", fmt.Errorf("mount tmpfs: %w", err)
	}
	return p, nil
}

// mountPoint makes rel below root, a directory or an empty file, and its
// parents; what it makes belongs to the command user.
func (sp *Space) mountPoint(root *os.Root, rel string, dir bool) error {
	parts := strings.Split(rel, "/")
	for i := range parts {
		p := path.Join(parts[:i+1]...)
		isDir := dir || i < len(parts)-1
		fi, err := root.Lstat(p)
		if err == nil {
			if isDir != fi.IsDir() || !isDir && !fi.Mode().IsRegular() {
				return fmt.Errorf("%w: %s is not what a mount point has to be", sandbox.ErrSpec, p)
			}
			continue
		}
		if isDir {
			err = root.Mkdir(p, 0o755)
		} else {
			err = root.WriteFile(p, nil, 0o644)
		}
		if err != nil {
			return err
		}
		if sp.s.root {
			if err := root.Lchown(p, sp.uid, sp.gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// release drops one use of a storage and frees it, and what it kept, at the last.
func (s *Store) release(st *storage) error {
	s.mu.Lock()
	st.refs--
	last := st.refs == 0
	if last {
		delete(s.pool, st.dir)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	var err error
	if st.free != nil {
		err = st.free()
	}
	if e := removeAll(st.dir); err == nil {
		err = e
	}
	// The directory above goes with the last thing in it.
	err = errors.Join(err, removeBox(filepath.Dir(st.dir)))
	for _, d := range st.deps {
		err = errors.Join(err, s.release(d))
	}
	return err
}

// removeBox removes the directory of a box unless a layer still lies in it.
func removeBox(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, "w")); err == nil {
		return nil
	}
	return removeAll(dir)
}

// Close unmounts and removes everything but layers that were handed on. Idempotent.
func (sp *Space) Close() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.closed {
		return nil
	}
	sp.closed = true
	var err error
	if sp.own != "" && sp.own != sp.dir {
		err = unmount(sp.own) // and all that is mounted in it
	}
	keep := ""
	if sp.pool != nil {
		err = errors.Join(err, sp.s.release(sp.pool))
		if _, e := os.Lstat(sp.pool.dir); e == nil {
			keep = sp.pool.dir
		}
	}
	for _, d := range []string{sp.dir, sp.mnt} {
		if keep == "" || filepath.Dir(keep) != d {
			err = errors.Join(err, removeAll(d))
			continue
		}
		ents, e := os.ReadDir(d)
		err = errors.Join(err, e)
		for _, f := range ents {
			if p := filepath.Join(d, f.Name()); p != keep && f.Name() != ownerFile {
				err = errors.Join(err, removeAll(p))
			}
		}
	}
	if sp.s.mnt != sp.s.data {
		_ = os.Remove(sp.s.mnt) // fails while other boxes are in it
	}
	return err
}

// removeAll removes a tree that hostile code may have made. It stops at a mount
// that could not be taken away rather than empty what is mounted.
func removeAll(dir string) error { return tree.Remove(dir) }
