package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/output"
)

type downloadOptions struct{ ID, Dir string }

func (a *App) downloadCmd() *cobra.Command {
	var o downloadOptions
	cmd := &cobra.Command{
		Use:               "download ID",
		Short:             "Write a submission's files into a new directory",
		Long:              "Write a submission's files into a new directory. They are a contestant's: do not run them outside a box. JSON: {dir, files}.",
		Example:           "  agon submission download {arena}/mine --dir ./rival",
		Args:              Args(1, 1, "a submission"),
		ValidArgsFunction: a.Complete(SubmissionIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			if o.ID, err = a.submissionID(cmd.Context(), c, args[0]); err != nil {
				return err
			}
			if o.Dir == "" {
				o.Dir = filepath.Base(filepath.Clean("/" + o.ID))
			}
			files, err := c.SubmissionFiles(cmd.Context(), o.ID)
			if err != nil {
				return err
			}
			if err := writeForeign(o.Dir, files); err != nil {
				return err
			}
			names := ids(files, func(f client.File) string { return f.Path })
			return a.Printer.Print(cmd.Context(), output.Result{Value: map[string]any{"dir": o.Dir, "files": names}, IDs: names, Human: func(h *output.Human) {
				for _, n := range names {
					h.Line("%s", filepath.Join(o.Dir, n))
				}
			}})
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "new `directory` to write (default: ./ID)")
	return cmd
}

// writeForeign writes files with hostile names and contents into dir, which it
// makes or which must be empty: nothing of the user's can be replaced, no name
// starts with a dot (a .git would run its hooks), nothing is executable.
func writeForeign(dir string, files []client.File) error {
	bad := func(name, why string) error {
		return &agon.Error{
			Code: "unsafe_name", Status: http.StatusUnprocessableEntity, Field: "files", Message: fmt.Sprintf("file %q: %s", name, why),
			Mend: "look at it with -o json on `agon submission view`; nothing was written",
		}
	}
	seen := map[string]bool{}
	for _, f := range files {
		switch {
		case !fs.ValidPath(f.Path) || f.Path == "." || !filepath.IsLocal(f.Path) || strings.Contains(f.Path, "\\"):
			return bad(f.Path, "leaves the directory")
		case plain.Line(f.Path) != f.Path || len(f.Path) > 255:
			return bad(f.Path, "no name to show in a terminal")
		case strings.HasPrefix(f.Path, ".") || strings.Contains(f.Path, "/."):
			return bad(f.Path, "starts with a dot")
		case seen[strings.ToLower(f.Path)]:
			return bad(f.Path, "stands there twice")
		}
		seen[strings.ToLower(f.Path)] = true
	}
	return writeNew(dir, files)
}

// writeNew writes files of checked names into dir, which it makes or which must be empty.
func writeNew(dir string, files []client.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	if len(entries) > 0 {
		return &agon.Error{Code: "dir_not_empty", Status: http.StatusConflict, Field: "dir", Message: dir + " is not empty", Mend: "name a new directory"}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer root.Close()
	for _, f := range files {
		if d := path.Dir(f.Path); d != "." {
			if err := root.MkdirAll(d, 0o755); err != nil {
				return fmt.Errorf("make directory: %w", err)
			}
		}
		out, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write file: %w", err)
		}
		_, err = out.Write(f.Content)
		if err := errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
