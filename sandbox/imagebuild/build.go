// Package imagebuild makes images of Dockerfiles without a daemon: each
// instruction that changes files is done in one throw-away box, by the box's own
// root, and what it changed becomes one layer above the base. The box has no
// network but a door to the package registries that this machine uses.
//
// A Dockerfile, its directory and its base are foreign. Nothing of them runs or
// is followed outside the box.
package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
	known := map[string]*rootfs.Image{"scratch": nil} // by what the Dockerfile calls them
	image := func(name string) (*rootfs.Image, error) {
		img, ok := known[name]
		if ok {
			return img, nil
		}
		ref := name
		if other, ok := c.From[name]; ok {
			ref = other
		}
		if ref != "scratch" {
			if img, err = c.Images.Ensure(ctx, ref); err != nil {
				return nil, err
			}
		}
		known[name] = img
		return img, nil
	}
	stages, err := parse(text, c.Args, func(from string) (rootfs.ImageConfig, error) {
		img, err := image(from)
		if img == nil || err != nil {
			return rootfs.ImageConfig{}, err
		}
		return img.Config, nil
	})
	if err != nil {
		return nil, err
	}
	last := stages[len(stages)-1]
	needed := map[*plan]bool{last: true}
	made := map[*plan]*rootfs.Image{}
	for _, p := range slices.Backward(stages) {
		if needed[p] {
			for _, of := range p.stands() {
				needed[of] = true
			}
		}
	}
	for n, p := range stages {
		if !needed[p] {
			continue
		}
		if len(stages) > 1 {
			fmt.Fprintf(c.Log, "stage %d of %d: %s\n", n+1, len(stages), plain.Short(p.from, 200))
		}
		b := &builder{Config: c, plan: p, context: dir, made: made, image: image}
		if p != last {
			b.Name = ""
		}
		if made[p], err = b.build(ctx); err != nil {
			return nil, err
		}
	}
	return made[last], nil
}

// stands are the stages that a stage needs.
func (p *plan) stands() (out []*plan) {
	if p.base != nil {
		out = append(out, p.base)
	}
	for _, s := range p.steps {
		if s.src != nil && s.src.stage != nil {
			out = append(out, s.src.stage)
		}
	}
	return out
}

// build makes the image of one stage.
func (b *builder) build(ctx context.Context) (*rootfs.Image, error) {
	c, p := b.Config, b.plan
	base, err := b.made[p.base], error(nil)
	if p.base == nil {
		if base, err = b.image(p.from); err != nil {
			return nil, err
		}
	}
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
	context *os.Root // the directory that is built
	made    map[*plan]*rootfs.Image
	image   func(name string) (*rootfs.Image, error)

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
		return fmt.Errorf("%w: prepare the build's box: %v %+v", sandbox.ErrHost, err, x) //nolint:errorlint // its text only: it is the machine that failed
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
