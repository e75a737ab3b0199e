package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// FromTemplate writes the files below top of fsys into dir, which is new or empty,
// and returns their names. edit gets each file's name and bytes, and the task's
// name, which is the last part of dir; scripts (.sh) may be executed. It refuses
// a name that goodName does not accept; wants says what that is.
func FromTemplate(fsys fs.FS, top, dir string, goodName func(string) bool, wants string, edit func(file, name string, b []byte) []byte) ([]string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	name := filepath.Base(abs)
	if !goodName(name) {
		return nil, fmt.Errorf("init task: %q is not a name: want %s", name, wants)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	if have, err := os.ReadDir(dir); err != nil || len(have) > 0 {
		return nil, fmt.Errorf("init task: %w", errors.Join(err, fmt.Errorf("%s is not empty", dir)))
	}
	var out []string
	err = fs.WalkDir(fsys, top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, top+"/")
		mode := os.FileMode(0o644)
		if path.Ext(rel) == ".sh" {
			mode = 0o755
		}
		to := filepath.Join(dir, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		out = append(out, rel)
		return os.WriteFile(to, edit(rel, name, b), mode)
	})
	if err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	return out, nil
}
