package rootfs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/sandbox/internal/entry"
)

// Root is a root file system of boxes, and what stands where in it.
type Root struct {
	Dir   string // on the host
	Image string // the image's digest; "" is the machine's own tree
	// Path is the PATH of commands: the image's programs first, then agon's own.
	Path string
	// Python is the agent's interpreter, as a path or name in the box.
	Python string
	// Env is what the image says ("K=V"), without PATH.
	Env []string
	// WorkingDir, UID and GID are the image's; "" and 0 where it says nothing
	// or root: boxes have no root.
	WorkingDir string
	UID, GID   int
}

const plainPath = "/usr/local/bin:/usr/bin:/bin"

// Roots gives the root file systems of boxes: the machine's own, and those of
// images with agon's own layer beside. Safe for concurrent use.
type Roots struct {
	own    string
	images *Images
	quota  int64 // of the cache; 0: none is enforced here

	// one is held while an image is imported: the others wait for the disk anyway.
	one sync.Mutex

	mu   sync.Mutex
	open map[string]opened // guarded by mu
}

// opened is an image that is in use, or was.
type opened struct {
	Root
	at time.Time // last asked for
}

// inUse is how long an image stays after it was asked for: a box is started over it meanwhile.
const inUse = time.Hour

// NewRoots makes Roots over the machine's own tree and a cache of images.
func NewRoots(own string, images *Images) *Roots {
	return &Roots{own: own, images: images, open: map[string]opened{}}
}

// Bounded makes Warm remove images beyond so many bytes, those used longest ago first.
func (r *Roots) Bounded(bytes int64) *Roots {
	r.quota = bytes
	return r
}

// Ready tells whether an image is here and unpacked, without waiting for one that is being imported.
func (r *Roots) Ready(ref string) bool {
	img, err := r.images.Get(ref)
	if err != nil {
		return false
	}
	return ready(r.images.beside(img, r.own))
}

// Warm is Of before anything needs the image. Then it makes room: images beyond
// the quota go, but none of needed and none that was asked for within the hour.
func (r *Roots) Warm(ctx context.Context, ref string, needed []string) error {
	if _, err := r.Of(ctx, ref); err != nil || r.quota <= 0 {
		return err
	}
	var keep []string
	r.mu.Lock()
	for _, x := range r.open {
		if time.Since(x.at) < inUse {
			keep = append(keep, x.Image)
		}
	}
	r.mu.Unlock()
	for _, n := range needed {
		if img, err := r.images.Get(n); err == nil {
			keep = append(keep, img.Digest)
		}
	}
	_, err := r.images.Prune(ctx, r.quota, keep...)
	return err
}

// Own is the machine's own tree.
func (r *Roots) Own() Root { return Root{Dir: r.own, Path: plainPath, Python: "python3"} }

// Pinned says whether a reference names one image for good, by its digest.
func Pinned(ref string) bool {
	if d, ok := strings.CutPrefix(ref, "sha256:"); ok {
		return isHex(d)
	}
	_, d, ok := strings.Cut(ref, "@sha256:")
	return ok && isHex(d)
}

// Of opens the image that a reference with a digest names, "" for the machine's
// own tree. An image that is not here is imported. Errors wrap ErrImage,
// ErrTooLarge and ErrNoImage where the image is at fault.
func (r *Roots) Of(ctx context.Context, ref string) (Root, error) {
	if ref == "" {
		return r.Own(), nil
	}
	if !Pinned(ref) {
		return Root{}, badImage("%.200q names no digest: write NAME@sha256:… (agon image import prints it)", ref)
	}
	now := time.Now() //nolint:forbidigo // marks on the disk are compared
	r.mu.Lock()
	x, ok := r.open[ref]
	if ok {
		r.open[ref] = opened{x.Root, now}
	}
	r.mu.Unlock()
	if ok && ready(x.Dir) {
		if now.Sub(x.at) > time.Minute {
			_ = Used(x.Dir, now) // costs it its place at worst
		}
		return x.Root, nil
	}
	if !r.Ready(ref) {
		r.one.Lock()
		defer r.one.Unlock()
	}
	root, err := r.root(ctx, ref)
	if err != nil {
		return Root{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[ref] = opened{root, now}
	return root, nil
}

// root opens an image.
func (r *Roots) root(ctx context.Context, ref string) (Root, error) {
	img, err := r.images.Ensure(ctx, ref)
	if err != nil {
		return Root{}, err
	}
	dir, err := r.images.OpenBeside(ctx, img, r.own)
	if err != nil {
		return Root{}, err
	}
	x := Root{Dir: dir, Image: img.Digest, Path: plainPath, Python: "/" + layerDir + "/bin/python3", WorkingDir: img.Config.WorkingDir}
	for _, e := range img.Config.Env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			x.Path = p
		} else if !strings.HasPrefix(e, "LD_") {
			x.Env = append(x.Env, e)
		}
	}
	x.Path += ":/" + layerDir + "/bin"
	if x.UID, x.GID, err = userOf(dir, img.Config.User); err != nil {
		return Root{}, err
	}
	return x, nil
}

// Environ is the environment of commands: what the image says, under what the
// harness gives ("K=V"), with the PATH of the root.
func (x Root) Environ(given ...string) []string {
	out := []string{"PATH=" + x.Path}
	at := map[string]int{"PATH": 0}
	for _, e := range slices.Concat(x.Env, given) {
		k, _, _ := strings.Cut(e, "=")
		if k == "PATH" {
			continue
		}
		if i, ok := at[k]; ok {
			out[i] = e
			continue
		}
		at[k] = len(out)
		out = append(out, e)
	}
	return out
}

// beside is where the tree of an image stands with agon's own layer.
func (s *Images) beside(img *Image, own string) string {
	return s.tree(img.Digest) + "-" + layerName(own)
}

// OpenBeside is Images.Open with agon's own layer, of the tree own, in the tree.
func (s *Images) OpenBeside(ctx context.Context, img *Image, own string) (string, error) {
	launcher, err := entry.Launcher(ctx, "")
	if err != nil {
		return "", err
	}
	return s.openWith(ctx, img, s.beside(img, own), func(tree string) error { return addLayer(tree, own, launcher) })
}

// userOf reads who an image's processes are: "name", "uid", "name:group" or
// "uid:gid". Root is 0, 0: the box's own user.
func userOf(tree, user string) (uid, gid int, err error) {
	name, group, _ := strings.Cut(user, ":")
	if name == "" || name == "root" || name == "0" {
		return 0, 0, nil
	}
	row, err := account(tree, "passwd", name)
	switch {
	case err != nil:
		return 0, 0, err
	case row != nil:
		uid, _ = strconv.Atoi(row[2])
		gid, _ = strconv.Atoi(row[3])
	default:
		if uid, err = strconv.Atoi(name); err != nil {
			return 0, 0, badImage("its user %.100q is not in its /etc/passwd", name)
		}
		gid = uid
	}
	if group != "" {
		if row, err = account(tree, "group", group); err != nil {
			return 0, 0, err
		}
		if row != nil {
			gid, _ = strconv.Atoi(row[2])
		} else if gid, err = strconv.Atoi(group); err != nil {
			return 0, 0, badImage("its group %.100q is not in its /etc/group", group)
		}
	}
	const most = 60_000 // what user namespaces map
	if uid < 0 || uid > most || gid < 0 || gid > most {
		return 0, 0, badImage("its user %.100q is not one of 0 to %d", user, most)
	}
	if uid == 0 || gid == 0 {
		return 0, 0, nil
	}
	return uid, gid, nil
}

// account finds a line of etc/passwd or etc/group by name or number; nil if there is none.
func account(tree, file, name string) ([]string, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(path.Join("etc", file))
	if err != nil {
		return nil, nil //nolint:nilerr // an image without accounts has none
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for n := 0; s.Scan() && n < 100_000; n++ {
		if row := strings.Split(s.Text(), ":"); len(row) >= 4 && (row[0] == name || row[2] == name) {
			return row, nil
		}
	}
	return nil, nil
}

// Interpreter is a Python for the harness: its program, and what it needs in
// its environment when the program runs as a copy elsewhere.
type Interpreter struct {
	Program []byte
	Env     []string
	Own     bool // agon's, not the image's
}

// Interpreter returns the Python by which tests of a task run: want, a path in
// the box; else the image's own; else agon's.
func (x Root) Interpreter(want string) (*Interpreter, error) {
	root, err := os.OpenRoot(x.Dir)
	if err != nil {
		return nil, fmt.Errorf("open root file system: %w", err)
	}
	defer root.Close()
	at := ""
	switch {
	case want != "":
		if at = resolve(root, strings.TrimPrefix(path.Clean(want), "/")); at == "" {
			return nil, badImage("it has no program at %.200q", want)
		}
	case x.Image == "":
		at = resolve(root, "usr/bin/python3")
	default:
		at = find(root, "python3")
	}
	in := &Interpreter{}
	if at == "" {
		in.Own = true
		if at = resolve(root, layerDir+"/libexec/python3"); at == "" {
			return nil, errors.New("read the interpreter: the root file system has none")
		}
	}
	b, err := root.ReadFile(at)
	if err != nil {
		return nil, fmt.Errorf("read the interpreter: %w", err)
	}
	in.Program = b
	switch {
	case in.Own:
		if in.Program, err = withInterp(b, ownInterp); err != nil {
			return nil, err
		}
		in.Env = []string{"PYTHONHOME=/" + layerDir, "LD_LIBRARY_PATH=/" + layerDir + "/lib/libs"}
	case x.Image != "":
		// A copy does not find its library by where it stands.
		in.Env = []string{"PYTHONHOME=/" + filepath.Dir(filepath.Dir(at))}
	}
	return in, nil
}
