package task

import (
	"io/fs"
	"os"
)

// dirFS is a directory as fs.FS that no link leads out of. It opens the
// directory anew for each call, so that a task holds no file descriptor.
type dirFS string

// Open implements fs.FS.
func (d dirFS) Open(name string) (fs.File, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.FS().Open(name)
}

// ReadLink implements fs.ReadLinkFS.
func (d dirFS) ReadLink(name string) (string, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	return root.Readlink(name)
}

// Lstat implements fs.ReadLinkFS.
func (d dirFS) Lstat(name string) (fs.FileInfo, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.Lstat(name)
}

// Sub implements fs.SubFS.
func (d dirFS) Sub(name string) (fs.FS, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "sub", Path: name, Err: fs.ErrInvalid}
	}
	return dirFS(string(d) + "/" + name), nil
}
