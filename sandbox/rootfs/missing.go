package rootfs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Missing lists what of Needs an image's tree does not have, sorted.
func Missing(tree string) ([]string, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil, fmt.Errorf("open root file system: %w", err)
	}
	defer root.Close()
	out := []string{}
	for name, at := range Needs {
		if !slices.ContainsFunc(at, func(p string) bool { return executable(root, p) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// executable tells whether a tree has a program there, after links.
func executable(root *os.Root, p string) bool { return resolve(root, p) != "" }

// resolve follows links as a box would, where an absolute one begins at the
// tree, and returns where the program stands; "" if there is none.
func resolve(root *os.Root, p string) string {
	for range 16 {
		fi, err := root.Lstat(p)
		if err != nil {
			dir := path.Dir(p)
			to, lerr := root.Readlink(dir) // /bin may lead to usr/bin
			if dir == "." || lerr != nil {
				return ""
			}
			p = path.Join(rooted(dir, to), path.Base(p))
			continue
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			if fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				return p
			}
			return ""
		}
		to, err := root.Readlink(p)
		if err != nil {
			return ""
		}
		p = rooted(p, to)
	}
	return ""
}

func rooted(from, to string) string {
	if path.IsAbs(to) {
		return strings.TrimPrefix(path.Clean(to), "/")
	}
	return strings.TrimPrefix(path.Join("/", path.Dir(from), to), "/")
}
