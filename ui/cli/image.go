package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox/imagebuild"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) imageCmd(h Host) *cobra.Command {
	return a.noun(&cobra.Command{
		Use:     "image",
		Short:   "Images: root file systems of boxes, from registries, layouts and archives",
		Example: "  agon image\n  agon image import oci:./layout",
	}, a.imageListCmd(h), a.imageImportCmd(h), a.imageBuildCmd(h), a.imageCheckCmd(h), a.imageExportCmd(h), a.imagePruneCmd(h))
}

func (a *App) imageBuildCmd(h Host) *cobra.Command {
	var b BuildImageOptions
	var from, args, networks []string
	cmd := &cobra.Command{
		Use:   "build DIR",
		Short: "Make an image of a Dockerfile, without a daemon",
		Long: `Make an image of the Dockerfile in DIR. Its commands run as root of a throw-away box
(under runsc or runc) whose only way out leads to package registries: apt, pip, npm,
go and cargo, as this machine is configured to reach them. What they changed becomes
one layer above the base. FROM takes what image import takes, an image of this
machine, scratch, or apt:RELEASE (apt:trixie): a minimal Debian or Ubuntu that
mmdebstrap makes. --from puts another image in the place of what FROM names.
RUN, COPY, ENV, ARG, WORKDIR, USER, LABEL, CMD, ENTRYPOINT and SHELL are done, in one
stage or several (FROM … AS x, COPY --from=x); an instruction that cannot be is an
error that names it and its line.
JSON: that of agon image import.`,
		Example: "  agon image build ./task/environment\n  agon image build . --from python:3.13-slim=apt:trixie --network apt,pip --name mine",
		Args:    Args(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if h.BuildImage == nil {
				return Missing("images")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			b.Common, b.Dir = common, dirs[0]
			if b.From, err = pairs("from", from); err != nil {
				return err
			}
			if b.Args, err = pairs("arg", args); err != nil {
				return err
			}
			if cmd.Flags().Changed("network") {
				b.Networks = []string{}
				for _, n := range networks {
					if n != "none" {
						b.Networks = append(b.Networks, n)
					}
				}
			}
			img, err := h.BuildImage(cmd.Context(), b)
			if err != nil {
				return imageError(err)
			}
			return a.Printer.Print(cmd.Context(), imported(img))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&b.Dockerfile, "file", "f", "Dockerfile", "the Dockerfile, below DIR")
	f.StringVar(&b.Name, "name", "", "`name` under which this machine keeps the image")
	f.StringArrayVar(&from, "from", nil, "`NAME=REF`: another image in the place of what FROM names")
	f.StringArrayVar(&args, "arg", nil, "`NAME=VALUE` of an ARG")
	f.StringSliceVar(&networks, "network", nil, "package `registries` that commands may ask: apt, pip, npm, go, cargo; or none (default all)")
	f.StringVar(&b.Driver, "driver", "", "box driver: runsc or runc")
	return cmd
}

// pairs reads NAME=VALUE of a flag.
func pairs(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, e := range list {
		k, v, ok := strings.Cut(e, "=")
		if !ok || k == "" {
			return nil, &agon.Error{Code: "bad_flag", Status: 422, Field: flag, Message: fmt.Sprintf("--%s %.100q: want NAME=VALUE", flag, e)}
		}
		out[k] = v
	}
	return out, nil
}

// imported is an image that came to this machine, for a person.
func imported(img *rootfs.Image) output.Result {
	return output.Result{Value: img, IDs: []string{img.Digest}, Human: func(h *output.Human) {
		h.Line("%s: %d layers, %s, %s copied", img.Digest, img.Layers, megabytes(img.Bytes), megabytes(img.Copied))
		if img.Licence != "" {
			h.Line("licences, as the image says: %s", img.Licence)
		}
	}}
}

// images runs f over the cache of images and turns its errors into what people read.
func (a *App) images(h Host, f func(*rootfs.Images) error) error {
	if h.Images == nil {
		return Missing("images")
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	defer done()
	return imageError(f(h.Images(common)))
}

// imageError is an error about an image as people read it.
func imageError(err error) error {
	var known *agon.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, rootfs.ErrNoImage):
		return &agon.Error{Code: "no_image", Status: 404, Field: "image", Message: err.Error(), Mend: "see `agon image list`, or import it with `agon image import REF`"}
	case errors.Is(err, imagebuild.ErrDockerfile):
		return &agon.Error{Code: "bad_dockerfile", Status: 422, Field: "Dockerfile", Message: err.Error(), Mend: "see `agon image build --help` for what can be built, or import a built image with `agon image import REF`"}
	case errors.Is(err, rootfs.ErrUnsupported):
		return &agon.Error{Code: "no_image", Status: 503, Field: "image", Message: err.Error(), Mend: "import an image with `agon image import REF`"}
	case errors.Is(err, rootfs.ErrImage), errors.Is(err, rootfs.ErrTooLarge):
		return &agon.Error{Code: "bad_image", Status: 422, Field: "image", Message: err.Error(), Mend: "an image is a registry's NAME@sha256:…, oci:DIR[:TAG] or archive:FILE.tar, for this machine"}
	}
	return err
}

func (a *App) imageListCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the images on this machine",
		Long:    "List the images on this machine, the most recently used first. JSON: an array of {digest, layers, bytes, config, licence, names, used, tree}; `tree`: it is unpacked.",
		Example: "  agon image list\n  agon image list --jq '.[].digest'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.images(h, func(s *rootfs.Images) error {
				list, err := s.List()
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.List(list, func(i *rootfs.Image) string { return i.Digest }, func(h *output.Human) {
					rows := make([][]output.Cell, len(list))
					for i, x := range list {
						rows[i] = []output.Cell{output.Text(shortDigest(x.Digest)), output.Text(strconv.Itoa(x.Layers)), output.Text(megabytes(x.Bytes)), output.Text(x.Used.Format("2006-01-02 15:04")), output.Text(strings.Join(x.Names, " "))}
					}
					h.Table([]output.Column{{Title: "image"}, {Title: "layers", Right: true}, {Title: "size", Right: true}, {Title: "used"}, {Title: "names", Min: 12}}, rows)
				}))
			})
		},
	}
}

func shortDigest(d string) string { return d[:min(len(d), len("sha256:")+12)] }

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func (a *App) imageImportCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "import REF",
		Aliases: []string{"pull"},
		Short:   "Bring an image to this machine",
		Long: `Bring an image to this machine, by its layers: from a registry (NAME@sha256:…), a
directory in OCI layout (oci:DIR[:TAG]) or a saved archive in OCI or docker form
(archive:FILE.tar). No daemon is needed. Layers that are here are not copied again,
and all is checked against its digests. Registries' credentials are those of docker
or podman on this machine.
JSON: {digest, layers, bytes, copied, config: {env, working_dir, user, entrypoint, cmd, labels}, licence, names, used, tree}.`,
		Example: "  agon image import oci:./layout\n  agon image import archive:python.tar -o json",
		Args:    Args(1, 1, "one image"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.images(h, func(s *rootfs.Images) error {
				img, err := s.Import(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if _, err := s.Open(cmd.Context(), img); err != nil {
					return err
				}
				img.Tree = true
				return a.Printer.Print(cmd.Context(), imported(img))
			})
		},
	}
}

// imageChecked says what an image lacks.
type imageChecked struct {
	Digest  string   `json:"digest"`
	Missing []string `json:"missing"`
}

func (a *App) imageCheckCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "check REF",
		Short: "Say what an image has not of git, python3 and sh",
		Long: `Say what an image has not of git, python3 (/usr/bin/python3) and sh. A task may name
an image that lacks them ([environment] image): agon's own stand beside it, and tests
run by them. An image that takes the place of the machine's own tree (AGON_ROOTFS_IMAGE)
has to have all three. An image that is not here is imported. JSON: {digest, missing}.`,
		Example: "  agon image check oci:./layout",
		Args:    Args(1, 1, "one image"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.images(h, func(s *rootfs.Images) error {
				img, err := s.Ensure(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				dir, err := s.Open(cmd.Context(), img)
				if err != nil {
					return err
				}
				c := imageChecked{Digest: img.Digest}
				if c.Missing, err = rootfs.Missing(dir); err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: c, IDs: []string{c.Digest}, Human: func(h *output.Human) {
					if len(c.Missing) == 0 {
						h.Line("nothing is missing")
						return
					}
					h.Line("missing: %s", strings.Join(c.Missing, ", "))
					h.Line("Tasks may name it all the same: agon's own stand beside it.")
				}})
			})
		},
	}
}

func (a *App) imageExportCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "export REF DIR",
		Short:   "Write an image as a directory in OCI layout",
		Long:    "Write an image of this machine as a directory in OCI layout, which must not exist. JSON: {digest, dir}.",
		Example: "  agon image export sha256:0123456789ab ./layout",
		Args:    Args(2, 2, "an image and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.images(h, func(s *rootfs.Images) error {
				img, err := s.Get(args[0])
				if err != nil {
					return err
				}
				if err := s.Export(img, args[1]); err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: map[string]string{"digest": img.Digest, "dir": args[1]}, IDs: []string{img.Digest}, Human: func(h *output.Human) { h.Line("%s", args[1]) }})
			})
		},
	}
}

func (a *App) imagePruneCmd(h Host) *cobra.Command {
	var quota int64
	cmd := &cobra.Command{
		Use:     "prune",
		Short:   "Remove the images used longest ago",
		Long:    "Remove the images used longest ago, with layers that no other needs, until the others have at most --quota bytes. An image that a box stands on stays. JSON: {images, bytes}.",
		Example: "  agon image prune\n  agon image prune --quota 5000000000",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.images(h, func(s *rootfs.Images) error {
				if quota < 0 {
					return &agon.Error{Code: "bad_flag", Status: 422, Field: "quota", Message: fmt.Sprintf("--quota: want 0 or more bytes, got %d", quota)}
				}
				gone, err := s.Prune(cmd.Context(), quota)
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: gone, Human: func(h *output.Human) {
					h.Line("%d images, %s removed", len(gone.Images), megabytes(gone.Bytes))
				}})
			})
		},
	}
	cmd.Flags().Int64Var(&quota, "quota", 0, "`bytes` that may stay")
	return cmd
}
