package harbor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// stage is where a task is played: its root, its work directory and what lies
// there at the start.
type stage struct {
	task  *task.Task
	conf  *conf
	root  rootfs.Root
	dir   string   // work directory, in the boxes
	base  string   // what lies in it, on the host; "" for nothing
	open  []string // directories that can be written, in the boxes: the work directory is one of them or lies in one
	env   []string
	etc   []string // what the task's own texts name below /etc
	libs  []string // where variables of the boxes tell loaders to look
	tmp   string
	turns []turn

	services []service // other containers
}

func (s *stage) close() {
	if s.tmp != "" {
		_ = os.RemoveAll(s.tmp) // what stays is swept with the other temporary directories
	}
}

// closed are directories of a root that nobody writes: the system's programs,
// the driver's directories, and those of the boxes' own.
var closed = []string{"agon", "bin", "boot", "dev", "layer", "lib", "lib32", "lib64", "libx32", "logs", "proc", "run", "sandbox", "sbin", "solution", "steps", "sys", "tests", "tmp", "usr", "verifier"}

const localDir = "/usr/local"

func (h harbor) stage(ctx context.Context, env kind.Env, t *task.Task) (_ *stage, err error) {
	s := &stage{task: t, dir: t.Config.Environment.Workdir}
	if s.conf, err = confOf(t); err != nil {
		return nil, err
	}
	if s.turns, err = s.conf.turns(t); err != nil {
		return nil, err
	}
	if s.services, err = servicesOf(t); err != nil {
		return nil, err
	}
	if s.etc, err = etcNamed(t.Dir); err != nil {
		return nil, err
	}
	s.env = environOf(s.conf.Environment.Env)
	if ref := t.Image(); ref != "" {
		if s.root, err = env.Root(ctx, ref); err != nil {
			return nil, err
		}
		if s.dir == "" {
			s.dir = s.root.WorkingDir
		}
		if s.dir == "" || s.dir == "/" {
			s.dir = defaultDir
		}
		if at := filepath.Join(s.root.Dir, s.dir); isDir(at) {
			s.base = at
		}
	} else {
		s.root = rootfs.NewRoots(h.rootfs, nil).Own()
		r, err := recipeOf(t)
		if err != nil {
			return nil, err
		}
		s.env = append(r.env, s.env...)
		if s.dir == "" {
			s.dir = r.dir
		}
		if s.dir == "" {
			s.dir = defaultDir
		}
		if len(r.copies) > 0 {
			if err := s.copy(r, copiedDir); err != nil {
				s.close()
				return nil, err
			}
		}
	}
	if !workable(s.dir) {
		s.close()
		return nil, fmt.Errorf("work directory %.200q: want one like /app", s.dir)
	}
	s.open, s.libs = opened(s.root.Dir, s.dir), s.named()
	return s, nil
}

// opened are the directories of a root that agents may write.
func opened(root, work string) []string {
	out := []string{homeDir, "/tmp"}
	top, _, _ := strings.Cut(work[1:], "/")
	out = append(out, "/"+top)
	ents, err := os.ReadDir(root)
	if err != nil {
		ents = nil // the driver says what is wrong with the root
	}
	for _, e := range ents {
		p := "/" + e.Name()
		if e.IsDir() && !slices.Contains(closed, e.Name()) && !slices.Contains(out, p) && len(out) < 24 && plainName(e.Name()) {
			out = append(out, p)
		}
	}
	if isDir(filepath.Join(root, localDir)) {
		out = append(out, localDir)
	}
	slices.Sort(out)
	return out
}

func plainName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return !strings.HasPrefix(s, ".")
}

func isDir(p string) bool {
	fi, err := os.Lstat(p)
	return err == nil && fi.IsDir()
}

// python is the root's interpreter by its whole path: what an agent put before it in PATH is
// not asked what the agent left.
func (s *stage) python() string {
	if strings.Contains(s.root.Python, "/") {
		return s.root.Python
	}
	for _, bin := range filepath.SplitList(s.root.Path) {
		if _, err := os.Lstat(filepath.Join(s.root.Dir, bin, s.root.Python)); err == nil {
			return path.Join(bin, s.root.Python)
		}
	}
	return s.root.Python
}

// copy lays out what COPY names, of a directory of the task.
func (s *stage) copy(r *recipe, top string) (err error) {
	if s.tmp, err = tempdir.Make("harbor"); err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	if err := os.Chmod(s.tmp, 0o755); err != nil {
		return err
	}
	s.base = filepath.Join(s.tmp, "work")
	if err := os.Mkdir(s.base, 0o755); err != nil {
		return err
	}
	dst, err := os.OpenRoot(s.base)
	if err != nil {
		return err
	}
	defer dst.Close()
	src, err := os.OpenRoot(s.task.Dir)
	if err != nil {
		return fmt.Errorf("open task: %w", err)
	}
	defer src.Close()
	for _, c := range r.copies {
		from := path.Join(top, c.from)
		fi, err := src.Stat(from)
		if err != nil {
			return fmt.Errorf("COPY %s: %w", c.from, err)
		}
		if !fi.IsDir() {
			at := c.at
			if c.into {
				at = path.Join(at, path.Base(c.from))
			}
			if err := copyFile(src, from, dst, at); err != nil {
				return err
			}
			continue
		}
		if err := copyDir(src, from, dst, c.at, path.Join(top, "Dockerfile")); err != nil {
			return fmt.Errorf("COPY %s: %w", c.from, err)
		}
	}
	return nil
}

// copyDir copies the regular files below from but one.
func copyDir(src *os.Root, from string, dst *os.Root, to, but string) error {
	return fs.WalkDir(src.FS(), from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == but {
			return err
		}
		at := path.Join(to, strings.TrimPrefix(strings.TrimPrefix(p, from), "/"))
		switch {
		case d.IsDir():
			return dst.MkdirAll(cmpDot(at), 0o755)
		case d.Type().IsRegular():
			return copyFile(src, p, dst, at)
		}
		return nil
	})
}

func cmpDot(p string) string {
	if p == "" {
		return "."
	}
	return p
}

func copyFile(src *os.Root, from string, dst *os.Root, to string) error {
	b, err := src.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	mode := fs.FileMode(0o644)
	if bytes.HasPrefix(b, []byte("#!")) {
		mode = 0o755
	}
	if err := dst.MkdirAll(path.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if err := dst.WriteFile(to, b, mode); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// spec describes a box with the task's files as they are at the start, which
// belong to its user.
func (s *stage) spec(boxName string, l agon.Limits) sandbox.Spec {
	var mounts []sandbox.Mount
	for _, p := range s.open {
		m := sandbox.Mount{Kind: sandbox.MountScratch, Target: p}
		if at := filepath.Join(s.root.Dir, p); p != "/tmp" && isDir(at) {
			m.Kind, m.Source = sandbox.MountOverlay, at
		}
		if p == s.dir && s.base != "" {
			m.Kind, m.Source = sandbox.MountOverlay, s.base
		}
		mounts = append(mounts, m)
	}
	if !slices.Contains(s.open, s.dir) && (s.base == "" || !strings.HasPrefix(s.base, s.root.Dir+"/")) {
		m := sandbox.Mount{Kind: sandbox.MountScratch, Target: s.dir}
		if s.base != "" {
			m.Kind, m.Source = sandbox.MountOverlay, s.base
		}
		mounts = append(mounts, m)
	}
	if at := filepath.Join(s.root.Dir, layerDir); isDir(at) {
		mounts = append(mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: at, Target: layerDir, Exec: true})
	}
	mounts = append(mounts, sandbox.Mount{Kind: sandbox.MountScratch, Target: logsDir})
	l.OutputBytes = max(l.OutputBytes, maxWork+1<<20) // what is read of the work goes through a command's output
	return sandbox.Spec{
		Name: boxName, Rootfs: s.root.Dir, UID: s.root.UID, GID: s.root.GID, Limits: l, Mounts: mounts,
		Env: s.root.Environ(append([]string{"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + homeDir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"}, s.env...)...),
	}
}

// names makes loopback names known, and those of other containers, where /etc is the box's own.
func names(more []string) string {
	return `printf '127.0.0.1 ` + strings.Join(append([]string{"localhost", "box"}, more...), " ") + `\n::1 localhost\n' > /etc/hosts 2>/dev/null; mkdir -p /logs/agent /logs/artifacts; chmod 1777 /tmp`
}

// prepare makes a box ready for whoever works in it.
func prepare(ctx context.Context, box sandbox.Box, script string) error {
	return prepareFrom(ctx, box, script, nil)
}

// prepareFrom is prepare with what the script reads.
func prepareFrom(ctx context.Context, box sandbox.Box, script string, in io.Reader) error {
	out := &ending{limit: 2 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", script}, Dir: "/", Stdin: in, Stdout: out, Stderr: out})
	switch {
	case err != nil:
		return fmt.Errorf("prepare the box: %w", err)
	case x.Lost != "":
		return fmt.Errorf("prepare the box: command was lost: %s", x.Lost)
	case x.Code != 0 || x.Limit != "":
		return fmt.Errorf("prepare the box: exit %d %s: %s", x.Code, x.Limit, out.b)
	}
	return nil
}
