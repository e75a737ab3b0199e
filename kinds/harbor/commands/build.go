package commands

import (
	"context"
	"fmt"
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
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// builder makes the images of tasks that were imported.
type builder struct {
	on    bool
	from  []string
	names []string
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
		if err != nil || !tasks.NeedsImage(t) {
			return "", err
		}
		if d == nil {
			if d, root, err = kit.OpenDriver(ctx, o); err != nil {
				return "", err
			}
		}
		build := func(name, dir string) (string, error) {
			img, err := imagebuild.Build(ctx, imagebuild.Config{
				Driver: d, Images: rootfs.OpenImages(kit.ImagesDir(o), o.Writer()), Own: root, Dir: dir,
				From: from, Networks: networks, Name: name, Log: o.Writer(),
			})
			if err != nil {
				return "", err
			}
			return name + "@" + img.Digest, nil
		}
		name := "task/" + filepath.Base(dir)
		for {
			of, at := tasks.Unbuilt(t)
			if of == "" {
				break
			}
			named, set := name, dataset.SetImage
			if of != "main" {
				named = name + "-" + of
				set = func(dir, key, ref string) (*task.Task, error) { return dataset.SetService(dir, key, of, ref) }
			}
			ref, err := build(named, filepath.Join(dir, at))
			if err != nil {
				return of + " cannot be built: " + plain.Short(err.Error(), 300), nil
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
