package runsc

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/container"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

const (
	// maxImages bounds the images of a process, each of which holds its bytes in memory.
	maxImages = 8
	// maxImageBytes bounds one.
	maxImageBytes = 256 << 20
	// maxKeys bounds the sorts of boxes that are counted.
	maxKeys = 256
	// worthIt is the box of a sort at whose start an image of it is begun: a process
	// that plays one run needs none.
	worthIt = 2
)

// imageFiles are the files of an image, as runsc names them.
var imageFiles = []string{"checkpoint.img", "pages_meta.img", "pages.img"}

// key tells boxes apart that cannot be made of one image: by all that the runtime is
// told of them, but where it lies on the host, and by what is done ahead.
type key [sha256.Size]byte

// image is a box as it stood when its warm program had done its work. It lies in
// sealed memory of this process: it cannot be changed, and ends with the process.
type image struct {
	seen int           // boxes that wanted it
	done chan struct{} // closed when it is made, or cannot be; nil before it is begun
	// files are those of imageFiles; none where there is no image. They are read
	// after done, and guarded by images.mu.
	files []*os.File
}

// images are those of one driver. Safe for concurrent use.
type images struct {
	mu    sync.Mutex
	all   map[key]*image
	begun int
	said  bool
}

// want returns the image for k and its files, or nil if there is none. Where begin is
// true the caller has to make it.
func (l *images) want(k key) (img *image, files []*os.File, begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	img = l.all[k]
	if img == nil {
		if len(l.all) >= maxKeys {
			return nil, nil, false
		}
		img = &image{}
		if l.all == nil {
			l.all = map[key]*image{}
		}
		l.all[k] = img
	}
	img.seen++
	if img.seen >= worthIt && img.done == nil && l.begun < maxImages {
		img.done = make(chan struct{})
		l.begun++
		return img, nil, true
	}
	if len(img.files) == 0 {
		return nil, nil, false
	}
	return img, img.files, false
}

// put ends the making of an image.
func (l *images) put(img *image, files []*os.File, err error) {
	l.mu.Lock()
	img.files = files
	l.mu.Unlock()
	close(img.done)
	if err != nil {
		l.say(err)
	}
}

// drop gives up an image that no box could be made of.
func (l *images) drop(img *image, err error) {
	l.mu.Lock()
	// Another start may be reading them: they are closed when nothing holds them.
	img.files = nil
	l.mu.Unlock()
	l.say(err)
}

// say tells the operator once that boxes start without images.
func (l *images) say(err error) {
	l.mu.Lock()
	said := l.said
	l.said = true
	l.mu.Unlock()
	if !said {
		slog.Warn("boxes start without an image of a warm one, as they did before there were any", "error", err)
	}
}

// keyOf is the key of a box that conf describes, without its doors.
func keyOf(spec sandbox.Spec, conf *specs.Spec) (key, error) {
	c := *conf
	root, linux := *conf.Root, *conf.Linux
	root.Path, linux.CgroupsPath = "", ""
	c.Root, c.Linux, c.Mounts = &root, &linux, slices.Clone(conf.Mounts)
	for i := range c.Mounts {
		c.Mounts[i].Source = ""
	}
	type mount struct {
		Kind           sandbox.MountKind
		Target, Source string
		Exec           bool
	}
	mounts := make([]mount, 0, len(spec.Mounts))
	for _, m := range spec.Mounts {
		// gVisor mounts an overlay's file system in another way than a plain one.
		if m.Kind == sandbox.MountLayer {
			m.Kind = sandbox.MountOverlay
		}
		if !m.Shared {
			m.Source = ""
		}
		mounts = append(mounts, mount{m.Kind, m.Target, m.Source, m.Exec})
	}
	raw, err := json.Marshal(struct {
		Conf     *specs.Spec
		Mounts   []mount
		Rootfs   string
		UID, GID int
		Warm     *sandbox.Warm
	}{&c, mounts, spec.Rootfs, spec.UID, spec.GID, spec.Warm})
	return sha256.Sum256(raw), err
}

// blank is spec with nothing of anybody's: where the box has files of the host that are
// not every box's it shows an empty directory or file, and there are no doors and no names.
func blank(spec sandbox.Spec, dir string) (sandbox.Spec, error) {
	empty, none := filepath.Join(dir, "empty"), filepath.Join(dir, "none")
	if err := os.Mkdir(empty, 0o755); err != nil {
		return spec, err
	}
	if err := os.WriteFile(none, nil, 0o644); err != nil {
		return spec, err
	}
	spec.Doors, spec.Hostnames, spec.Env = nil, nil, nil
	spec.Mounts = slices.Clone(spec.Mounts)
	for i := range spec.Mounts {
		m := &spec.Mounts[i]
		if m.Shared {
			continue
		}
		switch m.Kind {
		case sandbox.MountLayer:
			m.Kind, m.Layer, m.Source = sandbox.MountOverlay, nil, empty
		case sandbox.MountReadOnly, sandbox.MountOverlay:
			fi, err := os.Stat(m.Source)
			if err != nil {
				return spec, err
			}
			m.Source = none
			if fi.IsDir() {
				m.Source = empty
			}
		}
	}
	return spec, nil
}

// makeImage makes the image with key k for boxes like spec.
func (d *Driver) makeImage(img *image, spec sandbox.Spec, k key) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	files, err := d.takeImage(ctx, spec, k)
	if err != nil {
		err = fmt.Errorf("take an image of a warm box: %w", err)
	}
	d.images.put(img, files, err)
}

// takeImage starts a box with nothing of anybody's, has the program do its work and saves the box.
func (d *Driver) takeImage(ctx context.Context, spec sandbox.Spec, k key) (_ []*os.File, err error) {
	dir, err := tempdir.Make("image")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tempdir.Remove(dir)) }()
	// The box's user passes through to what is empty; what is saved lies apart.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		return nil, err
	}
	if spec, err = blank(spec, dir); err != nil {
		return nil, err
	}
	m := &machine{d: d, among: d.live.Add(1), making: true}
	b, err := container.Start(ctx, container.Config{Spec: spec, Store: d.store, Cgroups: d.cg, Runtime: m, Own: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if m.key != k {
		return nil, errors.New("an empty box is of another form")
	}
	if err := b.Warm(ctx, spec.Warm); err != nil {
		return nil, err
	}
	logFile := b.Path("save.log")
	if err := call(ctx, m.client(b, logFile, "checkpoint", "--compression=none", "--exclude-committed-zero-pages", "--image-path", out, b.ID())); err != nil {
		return nil, withLog(err, logFile)
	}
	return sealedFiles(out)
}

// sealedFiles reads the files of an image into memory that cannot be changed.
func sealedFiles(dir string) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			files = nil
		}
	}()
	for _, name := range imageFiles {
		in, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return files, err
		}
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			_ = in.Close()
			return files, fmt.Errorf("make file in memory: %w", err)
		}
		out := os.NewFile(uintptr(fd), name)
		files = append(files, out)
		n, err := io.Copy(out, io.LimitReader(in, maxImageBytes+1))
		_ = in.Close()
		switch {
		case err != nil:
			return files, fmt.Errorf("read image: %w", err)
		case n > maxImageBytes:
			return files, fmt.Errorf("read image: %s has more than %d bytes", name, maxImageBytes)
		}
		if _, err := unix.FcntlInt(out.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
			return files, fmt.Errorf("seal image: %w", err)
		}
	}
	return files, nil
}

// restore starts the container from m's image. The runtime finds its files by links
// to this process's descriptors.
func (m *machine) restore(ctx context.Context, b *container.Box, stdin *os.File) (int, error) {
	dir := b.Path("image")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	for i, f := range m.files {
		if err := os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), filepath.Join(dir, imageFiles[i])); err != nil {
			return 0, err
		}
	}
	pid, err := m.run(ctx, b, stdin, "restore", "--image-path", dir)
	if err != nil {
		return pid, err
	}
	listen := make([]string, 0, len(b.Spec.Doors))
	for _, d := range b.Spec.Doors {
		listen = append(listen, d.Listen)
	}
	return pid, b.Thaw(listen)
}
