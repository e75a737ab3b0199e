package layers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
)

// unmount detaches a mount; what is not mounted is fine.
func unmount(p string) error {
	err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// bind mounts src at a new mount point, with flags set by a second call.
func (sp *Space) bind(src string, flags uintptr) (string, error) {
	p, err := sp.point(src)
	if err != nil {
		return "", err
	}
	if err := unix.Mount(src, p, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind: %w", err)
	}
	if err := unix.Mount("", p, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return "", fmt.Errorf("restrict bind: %w", err)
	}
	return p, nil
}

// point makes a mount point of the kind of src: a directory or an empty file.
func (sp *Space) point(src string) (string, error) {
	fi, err := os.Stat(src)
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		return sp.next(sp.own)
	}
	if !fi.Mode().IsRegular() {
		return "", fmt.Errorf("%w: %s is neither file nor directory", sandbox.ErrSpec, src)
	}
	sp.n++
	p := filepath.Join(sp.own, fmt.Sprintf("m%d", sp.n))
	return p, os.WriteFile(p, nil, 0o644)
}

// readOnly shows src without the right to change it.
func (sp *Space) readOnly(m sandbox.Mount) (string, error) {
	if !sp.s.root {
		_, err := os.Stat(m.Source)
		return m.Source, err
	}
	attr := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	if !m.Exec {
		attr |= unix.MOUNT_ATTR_NOEXEC
		flags |= unix.MS_NOEXEC
	}
	if strings.HasPrefix(m.Source, sp.own+"/") {
		// Ours has a neutral name, and may hold sockets, which overlays do not show.
		return sp.shown(m.Source, m.Source, attr, flags)
	}
	fi, err := os.Stat(m.Source)
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		p, err := sp.shown(m.Source, m.Source, attr, flags)
		if err != nil {
			return "", err
		}
		return sp.nameless(p, flags)
	}
	// An overlay shows directories: the file is taken from its own one's.
	p, err := sp.shown(filepath.Dir(m.Source), m.Source, attr, flags)
	if err == nil {
		p, err = sp.nameless(p, flags)
	}
	if err != nil {
		return "", err
	}
	return sp.bind(filepath.Join(p, filepath.Base(m.Source)), flags)
}

// shown mounts src with the owner of a file as the command user, where that works.
func (sp *Space) shown(src, owned string, attr uint64, flags uintptr) (string, error) {
	p, err := sp.mapped(src, owned, attr)
	if errors.Is(err, errNoMap) {
		return sp.bind(src, flags)
	}
	return p, err
}

// nameless shows what is mounted at p by a mount that does not name the source:
// a box can read in /proc/self/mountinfo which directory was bound. Where that
// does not work, as on overlays that lie too deep for another, p does.
func (sp *Space) nameless(p string, flags uintptr) (string, error) {
	empty, err := sp.next(sp.own)
	if err != nil {
		return "", err
	}
	at, err := sp.next(sp.own)
	if err != nil {
		return "", err
	}
	if err := mountLayers(at, flags, []string{p, empty}, "", "", false); err != nil {
		return p, nil //nolint:nilerr // see above
	}
	return at, nil
}

// mountLayers mounts an overlay. Layers are given by descriptors, so that boxes
// cannot read their paths among the options of the mount.
//
// A renamed directory of a lower layer is noted in the upper one (redirect), or
// cannot be renamed: programs copy it then.
func mountLayers(at string, flags uintptr, lowers []string, upper, work string, redirect bool) error {
	var opened []int
	defer func() {
		for _, fd := range opened {
			_ = unix.Close(fd)
		}
	}()
	name := func(dir string) (string, error) {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", &os.PathError{Op: "open", Path: dir, Err: err}
		}
		opened = append(opened, fd)
		return fmt.Sprintf("/proc/self/fd/%d", fd), nil
	}
	var names []string
	for _, d := range lowers {
		n, err := name(d)
		if err != nil {
			return err
		}
		names = append(names, n)
	}
	opt := "lowerdir=" + strings.Join(names, ":")
	if upper != "" {
		u, err := name(upper)
		if err != nil {
			return err
		}
		w, err := name(work)
		if err != nil {
			return err
		}
		opt += ",upperdir=" + u + ",workdir=" + w + ",index=off,metacopy=off,redirect_dir="
		if redirect {
			opt += "on"
		} else {
			opt += "off"
		}
	}
	if len(opt) >= os.Getpagesize() {
		return fmt.Errorf("%w: too many layers", sandbox.ErrSpec)
	}
	return unix.Mount("overlay", at, "overlay", flags, opt)
}

// errNoMap says that id-mapped mounts do not work for a source.
var errNoMap = errors.New("no id-mapped mount")

// mapped mounts src so that files of the owner of owned belong to the command user.
func (sp *Space) mapped(src, owned string, attr uint64) (string, error) {
	fi, err := os.Stat(owned)
	if err != nil {
		return "", err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errNoMap
	}
	ns, err := sp.s.ids.get(int(st.Uid), int(st.Gid), sp.uid, sp.gid)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoMap, err)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, src, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoMap, err)
	}
	defer func() { _ = unix.Close(tree) }()
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: attr | unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd()),
	})
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoMap, err)
	}
	p, err := sp.point(src)
	if err != nil {
		return "", err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, p, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", fmt.Errorf("attach mount: %w", err)
	}
	return p, nil
}

// idmaps keeps one user namespace per mapping that was asked for.
type idmaps struct {
	mu sync.Mutex
	m  map[[4]int]*os.File
}

// get returns a user namespace whose map turns the file owner uid:gid into huid:hgid.
func (i *idmaps) get(uid, gid, huid, hgid int) (*os.File, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := [4]int{uid, gid, huid, hgid}
	if f := i.m[key]; f != nil {
		return f, nil
	}
	// The namespace is born with a process; this one waits for the end of its input.
	cmd := exec.Command("cat")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: huid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: hgid, Size: 1}},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	_ = in.Close()
	_ = cmd.Wait()
	if err != nil {
		return nil, err
	}
	if i.m == nil {
		i.m = map[[4]int]*os.File{}
	}
	i.m[key] = f
	return f, nil
}

// overlay fills e.path and e.upper: e.lower and e.below seen through a writable layer.
func (sp *Space) overlay(e *entry, at string) error {
	if e.lower != "" {
		fi, err := os.Stat(e.lower)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return fmt.Errorf("%w: %s is not a directory", sandbox.ErrSpec, e.lower)
		}
	}
	if !sp.s.root {
		return sp.copyOver(e, at)
	}
	var err error
	if e.upper, err = sp.ownDirPlain(); err != nil {
		return err
	}
	work, err := sp.next(sp.pool.dir)
	if err != nil {
		return err
	}
	if e.path, err = sp.next(sp.own); err != nil {
		return err
	}
	if e.lower == "" {
		return sp.mountOverlay(e, e.below, work)
	}
	// Try the caller's own files first; kernels before 5.19 and file systems
	// without id maps get a private copy as the lowest layer.
	lower, err := sp.mapped(e.lower, e.lower, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err == nil {
		err = sp.mountOverlay(e, append(append([]string(nil), e.below...), lower), work)
		if err == nil {
			return nil
		}
	}
	if !errors.Is(err, errNoMap) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if lower, err = sp.next(sp.dir); err != nil {
		return err
	}
	if err := copyTree(e.lower, lower, sp.uid, sp.gid); err != nil {
		return err
	}
	return sp.mountOverlay(e, append(append([]string(nil), e.below...), lower), work)
}

// ownDirPlain is ownDir without a mount of its own.
func (sp *Space) ownDirPlain() (string, error) {
	d, err := sp.next(sp.pool.dir)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(d, 0o755); err != nil {
		return "", err
	}
	if !sp.s.root {
		return d, nil
	}
	return d, os.Chown(d, sp.uid, sp.gid)
}

func (sp *Space) mountOverlay(e *entry, lowers []string, work string) error {
	if err := mountLayers(e.path, unix.MS_NOSUID|unix.MS_NODEV, lowers, e.upper, work, true); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	return nil
}

// copyOver is overlay for those who may not mount: the lower tree is copied,
// and a layer, which holds a whole tree then, is copied again.
func (sp *Space) copyOver(e *entry, at string) error {
	d, err := sp.ownDir(at)
	if err != nil {
		return err
	}
	src := e.lower
	if len(e.below) > 0 {
		src = e.below[0]
	}
	if src != "" {
		if err := copyTree(src, d, -1, -1); err != nil {
			return err
		}
	}
	e.path, e.upper, e.below = d, d, nil
	return nil
}

// CheckTargets demands that no mount target passes through a link of the root
// file system, which would put it elsewhere. Errors wrap sandbox.ErrSpec.
func CheckTargets(rootfs string, mounts []sandbox.Mount) error {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return hostOrSpec("open rootfs", err)
	}
	defer func() { _ = root.Close() }()
	for _, m := range mounts {
		for p := strings.TrimPrefix(m.Target, "/"); p != "."; p = filepath.Dir(p) {
			if fi, err := root.Lstat(p); err == nil && fi.Mode()&os.ModeSymlink != 0 {
				return fmt.Errorf("%w: /%s is a link in the root file system", sandbox.ErrSpec, p)
			}
		}
	}
	return nil
}

// Files are put in a box's root by RootFS, by path without a leading slash.
type Files map[string]string

// RootFS mounts the root file system of a box: rootfs with the files and the
// mount points of targets over it, read-only, or with a writable layer above all
// that Layer hands on. Only for stores that mount.
func (sp *Space) RootFS(rootfs string, files Files, targets []sandbox.Mount, writable bool) (string, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if !cleanPath().MatchString(rootfs) {
		return "", fmt.Errorf("%w: rootfs %q: use only letters, digits and ._+@-", sandbox.ErrSpec, rootfs)
	}
	lower, err := os.OpenRoot(rootfs)
	if err != nil {
		return "", hostOrSpec("open rootfs", err)
	}
	defer func() { _ = lower.Close() }()
	skel, err := sp.next(sp.own)
	if err != nil {
		return "", hostOrSpec("make skeleton", err)
	}
	if err := os.Chmod(skel, 0o755); err != nil {
		return "", hostOrSpec("make skeleton", err)
	}
	top, err := os.OpenRoot(skel)
	if err != nil {
		return "", hostOrSpec("make skeleton", err)
	}
	defer func() { _ = top.Close() }()
	put := func(p string, dir bool, text string) error {
		parts := strings.Split(p, "/")
		for i := range parts {
			q := filepath.Join(parts[:i+1]...)
			mode := os.FileMode(0o755)
			if fi, err := lower.Lstat(q); err == nil {
				if fi.Mode()&os.ModeSymlink != 0 {
					return fmt.Errorf("%w: /%s is a link in the root file system", sandbox.ErrSpec, q)
				}
				mode = fi.Mode() & (os.ModePerm | os.ModeSticky)
			}
			if i == len(parts)-1 && !dir {
				if _, err := top.Lstat(q); err == nil && text == "" {
					return nil
				}
				return top.WriteFile(q, []byte(text), 0o644)
			}
			if err := top.Mkdir(q, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			if err := top.Chmod(q, mode); err != nil {
				return err
			}
		}
		return nil
	}
	for p, text := range files {
		if err := put(p, false, text); err != nil {
			return "", hostOrSpec("write /"+p, err)
		}
	}
	for _, d := range []string{"proc", "dev", "tmp"} {
		if err := put(d, true, ""); err != nil {
			return "", hostOrSpec("make /"+d, err)
		}
	}
	for _, m := range targets {
		if i, _ := sp.find(filepath.Dir(m.Target), false); i >= 0 || nested(m, targets) {
			continue // its mount point lies in another mount
		}
		dir := true
		if m.Kind == sandbox.MountReadOnly {
			fi, err := os.Stat(m.Source)
			if err != nil {
				return "", hostOrSpec("mount "+m.Target, err)
			}
			dir = fi.IsDir()
		}
		if err := put(strings.TrimPrefix(m.Target, "/"), dir, ""); err != nil {
			return "", hostOrSpec("make "+m.Target, err)
		}
		if m.Kind == sandbox.MountTmp {
			// runc gives a tmpfs the mode of its mount point.
			if err := top.Chmod(strings.TrimPrefix(m.Target, "/"), 0o777|os.ModeSticky); err != nil {
				return "", hostOrSpec("make "+m.Target, err)
			}
		}
	}
	p, err := sp.next(sp.own)
	if err != nil {
		return "", hostOrSpec("make root", err)
	}
	if writable {
		if err := sp.writableRoot(p, skel, rootfs); err != nil {
			return "", hostOrSpec("mount root", err)
		}
		return p, nil
	}
	if err := mountLayers(p, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, []string{skel, rootfs}, "", "", false); err != nil {
		return "", hostOrSpec("mount root", err)
	}
	return p, nil
}

// writableRoot mounts rootfs below skel at p, everything the command user's, with
// a writable layer above.
func (sp *Space) writableRoot(p, skel, rootfs string) error {
	// What belongs to nobody of the box, its root may not change either.
	if err := filepath.WalkDir(skel, func(f string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(f, sp.uid, sp.gid))
	}); err != nil {
		return err
	}
	lower, err := sp.mapped(rootfs, rootfs, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if errors.Is(err, errNoMap) {
		if lower, err = sp.next(sp.dir); err == nil {
			err = copyTree(rootfs, lower, sp.uid, sp.gid)
		}
	}
	if err != nil {
		return err
	}
	if sp.root, err = sp.ownDirPlain(); err != nil {
		return err
	}
	work, err := sp.next(sp.pool.dir)
	if err != nil {
		return err
	}
	return mountLayers(p, unix.MS_NOSUID|unix.MS_NODEV, []string{skel, lower}, sp.root, work, false)
}

// nested tells whether m lies below another of the mounts.
func nested(m sandbox.Mount, all []sandbox.Mount) bool {
	for _, o := range all {
		if o.Target != m.Target && strings.HasPrefix(m.Target, o.Target+"/") {
			return true
		}
	}
	return false
}
