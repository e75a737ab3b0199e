package play

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed all:template
var templateFS embed.FS

// Init writes a task that works into dir, which must not exist or be empty:
// something to change step by step, with Preflight after each. The last
// element of dir is the task's slug. It returns the files' names.
func Init(dir string) ([]string, error) {
	slug := filepath.Base(filepath.Clean(dir))
	if !slugForm.MatchString(slug) || len(slug) < MinSlug || len(slug) > MaxSlug {
		return nil, fmt.Errorf("init task: %q is not a slug: want %d to %d lower-case letters, digits and dashes", slug, MinSlug, MaxSlug)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	if have, err := os.ReadDir(dir); err != nil || len(have) > 0 {
		return nil, fmt.Errorf("init task: %w", errors.Join(err, fmt.Errorf("%s is not empty", dir)))
	}
	var out []string
	err := fs.WalkDir(templateFS, "template", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := templateFS.ReadFile(p)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, "template/")
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		out = append(out, name)
		return os.WriteFile(to, []byte(strings.ReplaceAll(string(b), "SLUG", slug)), 0o644)
	})
	if err != nil {
		return nil, fmt.Errorf("init task: %w", err)
	}
	return out, nil
}
