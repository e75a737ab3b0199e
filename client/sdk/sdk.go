// Package sdk is the Python package agon: clients and shims for trainers, and the
// programs that agon distill runs. docs/training.md says what is in it.
package sdk

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed agon/*.py agon/py.typed
var files embed.FS

// Requirements are the packages that training needs, pinned; the first is torch.
var Requirements = []string{
	"torch==2.15.0", "transformers==5.23.0", "trl==1.16.0", "peft==0.21.2", "accelerate==1.15.0", "datasets==5.2.0", "jinja2==3.1.6",
}

// Write puts the package below dir, as dir/agon; files that stand there are replaced.
func Write(dir string) error {
	return fs.WalkDir(files, "agon", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(p))
		if d.IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return fmt.Errorf("write the Python package: %w", err)
			}
			return nil
		}
		b, err := files.ReadFile(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return fmt.Errorf("write the Python package: %w", err)
		}
		return nil
	})
}
