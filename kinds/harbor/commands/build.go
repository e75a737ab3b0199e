package commands

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/harbor/dataset"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/imagebuild"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// builder makes the images of tasks that were imported.
type builder struct {
	on    bool
	from  []string
	names []string
	repos string
	// of lays out in a directory what a task's own image is built of, where the task
	// brings nothing for it, and tells what that stands on; nil: the task does.
	of func(ctx context.Context, taskDir, to string) (dataset.Base, error)
}

func (b *builder) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&b.on, "build", false, "make the images of Dockerfiles here")
	f.StringArrayVar(&b.from, "from", nil, "`NAME=REF`: with --build, another image in the place of what FROM names (apt:RELEASE, an image of this machine)")
	f.StringSliceVar(&b.names, "network", nil, "package `registries` that RUN may ask, with --build: apt, pip, npm, go, cargo; or none (default all)")
}

// all builds what the tasks of w lack, one after the other. A Dockerfile that
// cannot be built is told in its task's row.
func (b *builder) all(ctx context.Context, a *cli.App, kits kit.List, tasks Tasks, w *dataset.Writer) error {
	from := map[string]string{}
	for _, f := range b.from {
		k, v, ok := strings.Cut(f, "=")
		if !ok || k == "" || v == "" {
			return output.Usage("from", "give NAME=REF, such as ubuntu:24.04=apt:noble", "--from %.100q", f)
		}
		from[k] = v
	}
	networks := b.names
	if len(networks) == 1 && networks[0] == "none" {
		networks = []string{}
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	defer done()
	o := kits.Options(common, "")
	var d sandbox.Driver
	var root string
	return w.Each(ctx, func(dir, key string) (string, error) {
		t, err := dataset.Load(dir, key)
		if err != nil {
			return "", err
		}
		meant := b.meant(t, from)
		if !meant && !tasks.NeedsImage(t) {
			return "", nil
		}
		if d == nil {
			if d, root, err = kit.OpenDriver(ctx, o); err != nil {
				return "", err
			}
		}
		images := rootfs.OpenImages(kit.ImagesDir(o), o.Writer())
		build := func(name, dir, file string) (string, error) {
			img, err := imagebuild.Build(ctx, imagebuild.Config{
				Driver: d, Images: images, Own: root, Dir: dir, Dockerfile: file,
				From: from, Networks: networks, Name: name, Log: o.Writer(),
			})
			if err != nil {
				return "", err
			}
			return name + "@" + img.Digest, nil
		}
		name := "task/" + filepath.Base(dir)
		for {
			of := tasks.Unbuilt(t)
			if of.Name == "" && meant && t.Image() == "" {
				of = Build{Name: "main", Context: "environment", File: "Dockerfile"}
			}
			if of.Name == "" {
				break
			}
			named, set := name, dataset.SetImage
			if of.Name != "main" {
				named = name + "-" + of.Name
				set = func(dir, key, ref string) (*task.Task, error) { return dataset.SetService(dir, key, of.Name, ref) }
			}
			var ref string
			switch at := filepath.Join(dir, of.Context); {
			case of.Standin.Name != "":
				ref, err = shared(images, of.Standin, build)
			case b.of == nil || of.Name != "main":
				ref, err = build(named, at, of.File)
			default:
				ref, err = b.standing(ctx, images, dir, func(dir string) (string, error) { return build(named, dir, "Dockerfile") }, build)
			}
			if err != nil {
				return of.Name + " cannot be built: " + plain.Short(err.Error(), 300), nil
			}
			if t, err = set(dir, key, ref); err != nil {
				return "", err
			}
		}
		if err := tasks.Check(t); err != nil {
			return fmt.Sprintf("cannot be played yet: %v", err), nil
		}
		return "", nil
	})
}

// meant tells whether the Dockerfile of a task without an image stands on what --from
// names: the machine's own tree is not to stand in for that.
func (b *builder) meant(t *task.Task, from map[string]string) bool {
	if t.Image() != "" || len(from) == 0 {
		return false
	}
	text, err := t.ReadFile("environment/Dockerfile", 1<<20)
	if err != nil {
		return false
	}
	for l := range strings.Lines(string(text)) {
		if w := strings.Fields(l); len(w) > 1 && strings.EqualFold(w[0], "FROM") {
			if _, ok := from[w[1]]; ok {
				return true
			}
		}
	}
	return false
}

// standing builds an image that stands on one which many tasks share, and is made once.
func (b *builder) standing(ctx context.Context, images *rootfs.Images, taskDir string, build func(dir string) (string, error), base func(name, dir, file string) (string, error)) (string, error) {
	tmp, err := tempdir.Make("build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	on, err := b.of(ctx, taskDir, tmp)
	if err != nil {
		return "", err
	}
	if _, err := shared(images, on, base); err != nil {
		return "", err
	}
	return build(tmp)
}

// shared builds an image that many tasks use, where it is not here yet, and names it by its digest.
func shared(images *rootfs.Images, on dataset.Base, build func(name, dir, file string) (string, error)) (string, error) {
	if img, err := images.Get(on.Name); err == nil {
		return on.Name + "@" + img.Digest, nil
	}
	dir, err := tempdir.Make("build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(on.Dockerfile), 0o644); err != nil {
		return "", err
	}
	ref, err := build(on.Name, dir, "Dockerfile")
	if err != nil {
		return "", fmt.Errorf("%s: %w", on.Name, err)
	}
	return ref, nil
}
