// Package imagebuild makes images of Dockerfiles without a daemon: each
// instruction that changes files is done in one throw-away box, by the box's own
// root, and what it changed becomes one layer above the base. The box has no
// network but a door to the package registries that this machine uses.
//
// A Dockerfile, its directory and its base are foreign. Nothing of them runs or
// is followed outside the box.
package imagebuild

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/indexes"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Bounds of a build.
var limits = agon.Limits{
	WallMS: 30 * 60_000, CPUMilli: 4000, MemoryBytes: 4 << 30, Pids: 1024, DiskBytes: 16 << 30, Inodes: 1_000_000, OutputBytes: 64 << 20,
}

const (
	maxCopied = 4 << 30 // bytes of one COPY
	maxFiles  = 200_000 // of one COPY
	toolsDir  = "/.agon-build"
	ownBin    = "/opt/agon/bin"
	basePath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Config says what is built, of what and where.
type Config struct {
	Driver sandbox.Driver
	Images *rootfs.Images
	// Own is the machine's own tree, of which the tools in the box are taken.
	Own string
	// Dir is the directory that is built, Dockerfile the file in it; empty means
	// "Dockerfile".
	Dir, Dockerfile string
	// From replaces what FROM names: its reference to another.
	From map[string]string
	// Args are values of ARG.
	Args map[string]string
	// Networks are the registries that RUN may ask; see package indexes. Nil: all;
	// empty: none.
	Networks []string
	// Name is what the image is called in the cache; empty for none.
	Name string
	// Log receives progress and what commands print.
	Log io.Writer
}

// Build makes the image. Errors wrap ErrDockerfile where the Dockerfile or what
// it runs is at fault, rootfs.ErrImage for its base, sandbox.ErrHost for this machine.
func Build(ctx context.Context, c Config) (*rootfs.Image, error) {
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Dockerfile == "" {
		c.Dockerfile = "Dockerfile"
	}
	if c.Networks == nil {
		c.Networks = indexes.All
	}
	dir, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDockerfile, err)
	}
	defer dir.Close()
	text, err := readFile(dir, c.Dockerfile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDockerfile, err)
	}
	var base *rootfs.Image
	p, err := parse(text, c.Args, func(from string) (rootfs.ImageConfig, error) {
		ref := from
		if other, ok := c.From[from]; ok {
			ref = other
		}
		if ref == "scratch" {
			return rootfs.ImageConfig{}, nil
		}
		var err error
		if base, err = c.Images.Ensure(ctx, ref); err != nil {
			return rootfs.ImageConfig{}, err
		}
		return base.Config, nil
	})
	if err != nil {
		return nil, err
	}
	b := &builder{Config: c, plan: p, dir: dir}
	if len(p.steps) == 0 {
		return c.Images.Commit(ctx, base, nil, p.config, c.Name)
	}
	if base == nil { // a tree of nothing to stand on
		if base, err = c.Images.Commit(ctx, nil, nil, rootfs.ImageConfig{}, ""); err != nil {
			return nil, err
		}
	}
	if err := b.start(ctx, base); err != nil {
		return nil, err
	}
	defer b.close()
	for n, s := range p.steps {
		fmt.Fprintf(c.Log, "%d of %d: %s %s\n", n+1, len(p.steps), s.word, plain.Short(s.rest, 200))
		if err := b.do(ctx, s); err != nil {
			return nil, err
		}
	}
	layer, err := b.box.Layer(ctx, "/")
	if err != nil {
		return nil, fmt.Errorf("take the layer: %w", err)
	}
	defer func() { _ = layer.Remove() }()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(rootfs.WriteLayer(pw, layer.Dir, rootfs.FirstID, notOfImage)) }()
	defer pr.Close()
	return c.Images.Commit(ctx, base, pr, p.config, c.Name)
}

// notOfImage are paths that the box has of its own.
func notOfImage(p string) bool {
	switch p {
	case ".cargo", "opt/agon", "proc", "dev", "sys", "tmp", ".box", strings.TrimPrefix(toolsDir, "/"), "etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/agon-rootfs.json":
		return true
	}
	return false
}

func readFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(path.Clean(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxDockerfile+1))
	return string(b), err
}

// builder is one build.
type builder struct {
	Config
	*plan
	dir   *os.Root
	box   sandbox.Box
	tmp   string
	index *indexes.Server
	env   []string
}

func (b *builder) close() {
	if b.box != nil {
		_ = b.box.Close()
	}
	if b.index != nil {
		_ = b.index.Close()
	}
	if b.tmp != "" {
		_ = os.RemoveAll(b.tmp)
	}
}

// start makes the box over the base.
func (b *builder) start(ctx context.Context, base *rootfs.Image) (err error) {
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	tree, err := b.Images.OpenBeside(ctx, base, b.Own)
	if err != nil {
		return err
	}
	conf := indexes.Config{Names: b.Networks, Log: b.Log}
	if slices.Contains(b.Networks, indexes.Apt) {
		// An image of another kind has no apt to ask.
		if list, err := rootfs.Sources(rootfs.Release(tree)); err == nil {
			for _, s := range list {
				conf.Archives = append(conf.Archives, indexes.Archive{URI: s.URI, Suites: s.Suites, Parts: parts(tree)})
			}
		}
	}
	if b.index, err = indexes.Serve(conf); err != nil {
		return err
	}
	if b.tmp, err = tempdir.Make("build"); err != nil {
		return err
	}
	if err := os.Chmod(b.tmp, 0o755); err != nil {
		return err
	}
	for name, text := range b.index.Files(toolsDir) {
		if err := os.WriteFile(filepath.Join(b.tmp, name), text, 0o644); err != nil {
			return err
		}
	}
	b.env = b.index.Env(toolsDir)
	spec := sandbox.Spec{
		Name: "build", Rootfs: tree, Root: true, Limits: limits,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountReadOnly, Source: b.tmp, Target: toolsDir},
			{Kind: sandbox.MountScratch, Target: "/tmp"},
		},
	}
	if conf := b.index.CargoConfig(); conf != nil {
		dir := filepath.Join(b.tmp, "cargo")
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "config.toml"), conf, 0o644)); err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: dir, Target: indexes.CargoDir})
	}
	if len(b.Networks) > 0 {
		spec.Doors = []sandbox.Door{{Listen: indexes.Door, Target: b.index.URL}}
	}
	if b.box, err = b.Driver.Start(ctx, spec); err != nil {
		return fmt.Errorf("start a box for the build: %w", err)
	}
	if x, err := b.exec(ctx, "/", nil, nil, io.Discard, ownBin+"/chmod", "1777", "/tmp"); err != nil || x.Code != 0 {
		return fmt.Errorf("%w: prepare the build's box: %v %+v", sandbox.ErrHost, err, x)
	}
	return nil
}

// parts of an archive that are asked for: Ubuntu's packages lie in two.
func parts(tree string) []string {
	if id, _ := rootfs.Release(tree); id == "ubuntu" {
		return []string{"main", "universe"}
	}
	return []string{"main"}
}

func (b *builder) exec(ctx context.Context, dir string, env []string, in io.Reader, out io.Writer, args ...string) (sandbox.Exit, error) {
	return b.box.Exec(ctx, sandbox.Cmd{Args: args, Dir: dir, Env: env, Stdin: in, Stdout: out, Stderr: out, Untrusted: true})
}

// do does one step.
func (b *builder) do(ctx context.Context, s step) error {
	switch s.word {
	case "WORKDIR":
		return b.must(ctx, s, "/", nil, nil, ownBin+"/mkdir", "-p", s.dir)
	case "RUN":
		return b.run(ctx, s)
	}
	return b.copy(ctx, s)
}

// must runs a tool of agon's in the box.
func (b *builder) must(ctx context.Context, s step, dir string, env []string, in io.Reader, args ...string) error {
	out := &ending{}
	x, err := b.exec(ctx, dir, env, in, out, args...)
	return b.ended(s, x, err, out)
}

// ended says how a step's command went wrong, if it did.
func (b *builder) ended(s step, x sandbox.Exit, err error, out *ending) error {
	said := plain.Short(strings.TrimSpace(out.String()), 600)
	switch {
	case err != nil:
		return fmt.Errorf("line %d, %s: %w", s.line, s.word, err)
	case x.Lost != "":
		return fmt.Errorf("%w: line %d, %s: the box was ended: %s", sandbox.ErrHost, s.line, s.word, x.Lost)
	case x.Limit != "":
		return s.bad("it reached the build's %s limit", x.Limit)
	case x.Code != 0:
		return s.bad("exit %d: %s", x.Code, said)
	}
	return nil
}

func (b *builder) run(ctx context.Context, s step) error {
	env := slices.Clone(s.env)
	p := basePath
	for i, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			p, env[i] = v, e
		}
	}
	env = append(append(env, b.env...), "PATH="+p+":"+ownBin, "HOME=/root")
	out := &ending{}
	args := s.run
	if s.user != "" && s.user != "root" && s.user != "0" {
		return s.bad("after USER %.60s commands cannot be run here: RUN them before", s.user)
	}
	x, err := b.exec(ctx, s.dir, env, nil, io.MultiWriter(out, b.Log), args...)
	return b.ended(s, x, err, out)
}

// ending keeps the end of what is written.
type ending struct{ b []byte }

func (e *ending) Write(p []byte) (int, error) {
	e.b = append(e.b, p...)
	if n := len(e.b) - 2048; n > 0 {
		e.b = append(e.b[:0], e.b[n:]...)
	}
	return len(p), nil
}

func (e *ending) String() string { return strings.ToValidUTF8(string(e.b), "?") }

// copy lays files of the context into the box, where links of the image are
// followed as the box sees them.
func (b *builder) copy(ctx context.Context, s step) error {
	var found []string
	for _, pattern := range s.from {
		m, err := b.match(pattern)
		if err != nil {
			return s.bad("%v", err)
		}
		found = append(found, m...)
	}
	to, into := strings.TrimSuffix(s.to, "/"), strings.HasSuffix(s.to, "/") || len(found) > 1
	if to == "" {
		into = true
	}
	if !into { // a directory that is there takes a file into it
		fi, err := b.dir.Stat(found[0])
		if err == nil && !fi.IsDir() {
			x, err := b.exec(ctx, "/", nil, nil, io.Discard, ownBin+"/sh", "-c", `test -d "$1"`, "sh", s.to)
			if err != nil {
				return fmt.Errorf("line %d, %s: %w", s.line, s.word, err)
			}
			into = x.Code == 0
		}
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(b.archive(pw, s, found, strings.TrimPrefix(to, "/"), into)) }()
	defer pr.Close()
	caught := &caught{r: pr}
	err := b.must(ctx, s, "/", []string{"PATH=" + ownBin}, caught, ownBin+"/tar", "-x", "-C", "/", "--no-same-owner", "--keep-directory-symlink", "-p", "-f", "-")
	if caught.err != nil {
		return s.bad("%v", caught.err)
	}
	return err
}

// caught keeps the error of a reader, of which a command hears nothing.
type caught struct {
	r   io.Reader
	err error
}

func (c *caught) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// match finds what a pattern names in the context.
func (b *builder) match(pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, "*?[") {
		if _, err := b.dir.Stat(pattern); err != nil {
			return nil, fmt.Errorf("%.200q is not in the directory", pattern)
		}
		return []string{pattern}, nil
	}
	m, err := fs.Glob(b.dir.FS(), pattern)
	if err != nil || len(m) == 0 {
		return nil, fmt.Errorf("%.200q matches nothing in the directory", pattern)
	}
	if len(m) > maxFiles {
		return nil, fmt.Errorf("%.200q matches more than %d files", pattern, maxFiles)
	}
	return m, nil
}

// archive writes what is copied as it shall stand in the image.
func (b *builder) archive(w io.Writer, s step, found []string, to string, into bool) error {
	t := tar.NewWriter(w)
	left, n := int64(maxCopied), 0
	made := map[string]bool{".": true, "": true}
	var dirs func(p string) error
	dirs = func(p string) error { // parents, as Docker makes them
		if p == "." || p == "" || made[p] {
			return nil
		}
		if err := dirs(path.Dir(p)); err != nil {
			return err
		}
		made[p] = true
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: p + "/", Mode: 0o755, ModTime: epoch})
	}
	ignored, err := b.ignored()
	if err != nil {
		return err
	}
	put := func(from, at string) error {
		return fs.WalkDir(b.dir.FS(), from, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if ignored(p) {
				if d.IsDir() && p != from {
					return nil // something in it may be named again
				}
				return nil
			}
			if n++; n > maxFiles {
				return fmt.Errorf("more than %d files", maxFiles)
			}
			rel := strings.TrimPrefix(strings.TrimPrefix(p, from), "/")
			if from == "." {
				rel = strings.TrimPrefix(p, "./")
				if p == "." {
					rel = ""
				}
			}
			name := path.Join(at, rel)
			if name == "" || name == "." {
				return nil
			}
			fi, err := b.dir.Lstat(p)
			if err != nil {
				return err
			}
			if err := dirs(path.Dir(name)); err != nil {
				return err
			}
			h := &tar.Header{Name: name, Mode: int64(fi.Mode().Perm()), ModTime: epoch}
			if s.chmod != "" && !fi.IsDir() {
				_, _ = fmt.Sscanf(s.chmod, "%o", &h.Mode)
			}
			switch {
			case fi.IsDir():
				if made[name] {
					return nil
				}
				made[name] = true
				h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
				return t.WriteHeader(h)
			case fi.Mode()&fs.ModeSymlink != 0:
				h.Typeflag = tar.TypeSymlink
				if h.Linkname, err = b.dir.Readlink(p); err != nil {
					return err
				}
				return t.WriteHeader(h)
			case !fi.Mode().IsRegular():
				return fmt.Errorf("%.200q is neither file, directory nor link", p)
			}
			f, err := b.dir.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			h.Typeflag, h.Size = tar.TypeReg, fi.Size()
			if left -= h.Size; left < 0 {
				return fmt.Errorf("more than %d bytes", int64(maxCopied))
			}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			_, err = io.CopyN(t, f, h.Size)
			return err
		})
	}
	for _, from := range found {
		fi, err := b.dir.Stat(from)
		if err != nil {
			return err
		}
		at := to
		if !fi.IsDir() && into {
			at = path.Join(to, path.Base(from))
		}
		if err := put(from, at); err != nil {
			return err
		}
	}
	return t.Close()
}

// epoch is when copied files were made: the same bytes make the same image.
var epoch = time.Unix(1, 0)

// ignored reads .dockerignore: patterns of paths, ! takes one back.
func (b *builder) ignored() (func(string) bool, error) {
	text, err := readFile(b.dir, ".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		return func(string) bool { return false }, nil
	}
	if err != nil {
		return nil, err
	}
	type rule struct {
		pattern string
		back    bool
	}
	var rules []rule
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		p, back := strings.CutPrefix(l, "!")
		if len(rules) < 1000 {
			rules = append(rules, rule{strings.Trim(path.Clean("/"+p), "/"), back})
		}
	}
	return func(p string) bool {
		out := false
		for _, r := range rules {
			for q := p; q != "." && q != ""; q = path.Dir(q) {
				whole, _ := path.Match(r.pattern, q)
				deep := false
				if rest, ok := strings.CutPrefix(r.pattern, "**/"); ok {
					deep, _ = path.Match(rest, path.Base(q))
				}
				if whole || deep {
					out = !r.back
					break
				}
			}
		}
		return out
	}, nil
}
