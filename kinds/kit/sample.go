package kit

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Files beside a sample that are never entered: a script of a model, and what
// must come of the sample.
const (
	scriptFile = "script.json"
	expectFile = "expect.json"
)

// SampleFiles returns what the sample of a data folder enters, by path.
// Samples stand in data as samples/NAME.
func SampleFiles(data fs.FS, name string) (map[string][]byte, error) {
	none := fmt.Errorf("no sample %q", name)
	if name == "" || strings.Contains(name, "/") {
		return nil, none
	}
	dir := path.Join("samples", name)
	if !fs.ValidPath(dir) || dir == "samples" {
		return nil, none
	}
	out := map[string][]byte{}
	err := fs.WalkDir(data, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == path.Join(dir, scriptFile) || p == path.Join(dir, expectFile) {
			return err
		}
		b, err := fs.ReadFile(data, p)
		out[p[len(dir)+1:]] = b
		return err
	})
	if err != nil || len(out) == 0 {
		return nil, none
	}
	return out, nil
}

// SampleScript returns the script (JSON) on which a sample plays without a
// model; nil where it has none.
func SampleScript(data fs.FS, name string) []byte {
	b, err := fs.ReadFile(data, path.Join("samples", name, scriptFile))
	if err != nil {
		return nil
	}
	return b
}
