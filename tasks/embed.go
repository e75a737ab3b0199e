// Package tasks holds the task sets that come with agon. Their committed files
// are part of the binary; package task reads them.
//
// A set is a directory kind/name with one directory per task. Embedding keeps
// neither modes nor links; package task restores both (see task.Load).
package tasks

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed all:coding
var files embed.FS

// Set returns the committed files of a set, e.g. ("coding", "small"), for
// task.LoadSet. The error wraps fs.ErrNotExist if there is no such set.
func Set(kind, name string) (fs.FS, error) {
	dir := kind + "/" + name
	st, err := fs.Stat(files, dir)
	if err != nil {
		return nil, fmt.Errorf("open task set %s: %w", dir, err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("open task set %s: %w", dir, fs.ErrNotExist)
	}
	return fs.Sub(files, dir)
}
