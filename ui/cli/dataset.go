package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) datasetCmd(h Host) *cobra.Command {
	return a.noun(&cobra.Command{
		Use:     "dataset",
		Short:   "Data sets: read-only trees by digest that tasks name beside an image",
		Example: "  agon dataset\n  agon dataset add ./corpus",
	}, a.datasetListCmd(h), a.datasetAddCmd(h), a.datasetCheckCmd(h), a.datasetExportCmd(h), a.datasetPruneCmd(h))
}

// datasets runs f over the cache of data sets and turns its errors into what people read.
func (a *App) datasets(h Host, f func(*datasets.Store) error) error {
	if h.Datasets == nil {
		return Missing("data sets")
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	defer done()
	err = f(h.Datasets(common))
	switch {
	case errors.Is(err, datasets.ErrNoDataset):
		return &agon.Error{Code: "no_dataset", Status: 404, Field: "dataset", Message: err.Error(), Mend: "see `agon dataset list`, or add it with `agon dataset add REF`"}
	case errors.Is(err, datasets.ErrDataset):
		return &agon.Error{Code: "bad_dataset", Status: 422, Field: "dataset", Message: err.Error(), Mend: "see `agon dataset add --help` for what can be added"}
	}
	return err
}

func addedDataset(d *datasets.Dataset) output.Result {
	return output.Result{Value: d, IDs: []string{d.Digest}, Human: func(h *output.Human) {
		h.Line("%s: %d files, %s, %s copied", d.Digest, d.Files, megabytes(d.Bytes), megabytes(d.Copied))
		if d.Licence != "" {
			h.Line("licence, as the data set says: %s", d.Licence)
		}
	}}
}

func (a *App) datasetAddCmd(h Host) *cobra.Command {
	var licence string
	cmd := &cobra.Command{
		Use:     "add DIR|FILE|REF",
		Aliases: []string{"pull"},
		Short:   "Bring a data set to this machine",
		Long: `Bring a data set to this machine: a directory or a file, or a published one by its
digest (https://…@sha256:…, dir:DIR@sha256:…). A task names it in [environment] datasets
as NAME=https://…@sha256:…, and its boxes see it read-only at /datasets/NAME.
Each 8 MiB of each file has a digest: what was fetched before a stop is not fetched
again, and a byte that is wrong is an error that names its file. Links that stay
inside are kept; those that lead out, devices and sockets are refused.
JSON: {digest, files, bytes, copied, licence, names, used}.`,
		Example: "  agon dataset add ./corpus --licence CC-BY-4.0\n  agon dataset add https://data.example/corpus@sha256:… -o json",
		Args:    Args(1, 1, "one directory, file or reference"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.datasets(h, func(s *datasets.Store) error {
				var d *datasets.Dataset
				_, err := os.Lstat(args[0])
				if r, perr := datasets.Parse(args[0]); err != nil && perr == nil {
					d, err = s.Fetch(cmd.Context(), r)
				} else {
					d, err = s.Add(cmd.Context(), args[0], licence)
				}
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), addedDataset(d))
			})
		},
	}
	cmd.Flags().StringVar(&licence, "licence", "", "`licence` of a directory or file, which becomes part of the data set")
	return cmd
}

func (a *App) datasetListCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the data sets on this machine",
		Long:    "List the data sets on this machine, the most recently used first. JSON: an array of {digest, files, bytes, copied, licence, names, used}.",
		Example: "  agon dataset list\n  agon dataset list --jq '.[].digest'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.datasets(h, func(s *datasets.Store) error {
				list, err := s.List()
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.List(list, func(d *datasets.Dataset) string { return d.Digest }, func(h *output.Human) {
					rows := make([][]output.Cell, len(list))
					for i, x := range list {
						rows[i] = []output.Cell{output.Text(shortDigest(x.Digest)), output.Text(strconv.Itoa(x.Files)), output.Text(megabytes(x.Bytes)), output.Text(x.Used.Format("2006-01-02 15:04")), output.Text(strings.Join(x.Names, " "))}
					}
					h.Table([]output.Column{{Title: "data set"}, {Title: "files", Right: true}, {Title: "size", Right: true}, {Title: "used"}, {Title: "names", Min: 12}}, rows)
				}))
			})
		},
	}
}

// datasetChecked says what of a data set is not what it was.
type datasetChecked struct {
	Digest string   `json:"digest"`
	Wrong  []string `json:"wrong"`
}

func (a *App) datasetCheckCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "check REF",
		Short:   "Read a data set again and compare it with its digest",
		Long:    "Read a data set of this machine again and name the files that are not what its digest says; one of which a file is wrong is removed, so that it is fetched anew. JSON: {digest, wrong}.",
		Example: "  agon dataset check sha256:0123456789ab",
		Args:    Args(1, 1, "one data set"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.datasets(h, func(s *datasets.Store) error {
				d, err := s.Get(args[0])
				if err != nil {
					return err
				}
				c := datasetChecked{Digest: d.Digest, Wrong: []string{}}
				wrong, err := s.Check(cmd.Context(), d)
				if err != nil {
					return err
				}
				c.Wrong = append(c.Wrong, wrong...)
				err = a.Printer.Print(cmd.Context(), output.Result{Value: c, IDs: []string{c.Digest}, Human: func(h *output.Human) {
					if len(c.Wrong) == 0 {
						h.Line("all %d files are as they were", d.Files)
						return
					}
					h.Line("wrong: %s", strings.Join(c.Wrong, ", "))
				}})
				if err == nil && len(c.Wrong) > 0 {
					err = &agon.Error{Code: "bad_dataset", Status: 422, Field: "dataset", Message: fmt.Sprintf("%d files of %s are not what they were; it was removed", len(c.Wrong), shortDigest(c.Digest)), Mend: "add it again"}
				}
				return err
			})
		},
	}
}

func (a *App) datasetExportCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "export REF DIR",
		Short:   "Write a data set as a directory that can be published",
		Long:    "Write a data set of this machine as a directory, which must not exist: the manifest and the files as they are. Any web server publishes it (https://…@sha256:…), and a directory that machines share is enough, too (dir:DIR@sha256:…). JSON: {digest, dir}.",
		Example: "  agon dataset export sha256:0123456789ab /srv/data/corpus",
		Args:    Args(2, 2, "a data set and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.datasets(h, func(s *datasets.Store) error {
				d, err := s.Get(args[0])
				if err != nil {
					return err
				}
				if err := s.Export(cmd.Context(), d, args[1]); err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: map[string]string{"digest": d.Digest, "dir": args[1]}, IDs: []string{d.Digest}, Human: func(h *output.Human) { h.Line("%s", args[1]) }})
			})
		},
	}
}

func (a *App) datasetPruneCmd(h Host) *cobra.Command {
	var quota int64
	cmd := &cobra.Command{
		Use:     "prune",
		Short:   "Remove the data sets used longest ago",
		Long:    "Remove the data sets used longest ago, with files that no other has, until the others take at most --quota bytes of the disk. One that a box sees stays. With a quota of 0, what stopped fetches left goes, too. JSON: {datasets, bytes}.",
		Example: "  agon dataset prune\n  agon dataset prune --quota 50000000000",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.datasets(h, func(s *datasets.Store) error {
				if quota < 0 {
					return &agon.Error{Code: "bad_flag", Status: 422, Field: "quota", Message: fmt.Sprintf("--quota: want 0 or more bytes, got %d", quota)}
				}
				gone, err := s.Prune(cmd.Context(), quota)
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{Value: gone, Human: func(h *output.Human) {
					h.Line("%d data sets, %s removed", len(gone.Datasets), megabytes(gone.Bytes))
				}})
			})
		},
	}
	cmd.Flags().Int64Var(&quota, "quota", 0, "`bytes` that may stay")
	return cmd
}
