// Package python carries the Python SDK of claim arenas in the binary.
package python

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed agon_sdk/*.py caster_miner_sdk/*.py caster_miner_sdk/tools/*.py harnyx_miner_sdk/*.py harnyx_miner_sdk/tools/*.py
var files embed.FS

// Modules returns the source of every module by its dotted name; packages
// carry a name that ends in ".__init__".
func Modules() (map[string]string, error) {
	out := map[string]string{}
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(p)
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		out[strings.ReplaceAll(strings.TrimSuffix(p, ".py"), "/", ".")] = string(b)
		return nil
	})
	return out, err
}
