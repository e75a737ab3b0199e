package blob

import (
	"bytes"
	"io"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// FS shows files in memory as a read-only file system. Links show as files
// that hold their target; they are never followed.
func FS(files []File) iofs.FS {
	m := memFS{".": &memNode{name: ".", dir: true}}
	for _, f := range files {
		if CheckPath(f.Path) != nil {
			continue
		}
		mode := iofs.FileMode(0o444)
		if f.Mode == ModeExec {
			mode = 0o555
		}
		m.add(f.Path, &memNode{name: path.Base(f.Path), content: f.Content, mode: mode})
	}
	for _, n := range m {
		slices.SortFunc(n.list, func(a, b iofs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return m
}

type memFS map[string]*memNode

func (m memFS) add(p string, n *memNode) {
	if m[p] != nil {
		return
	}
	m[p] = n
	parent := path.Dir(p)
	if m[parent] == nil {
		m.add(parent, &memNode{name: path.Base(parent), dir: true})
	}
	m[parent].list = append(m[parent].list, iofs.FileInfoToDirEntry(n))
}

// Open implements fs.FS.
func (m memFS) Open(name string) (iofs.File, error) {
	if !iofs.ValidPath(name) {
		return nil, &iofs.PathError{Op: "open", Path: name, Err: iofs.ErrInvalid}
	}
	n := m[name]
	if n == nil {
		return nil, &iofs.PathError{Op: "open", Path: name, Err: iofs.ErrNotExist}
	}
	if n.dir {
		return &memDir{node: n}, nil
	}
	return &memFile{node: n, Reader: bytes.NewReader(n.content)}, nil
}

// memNode is a file or directory and its own FileInfo.
type memNode struct {
	name    string
	content []byte
	mode    iofs.FileMode
	dir     bool
	list    []iofs.DirEntry
}

func (n *memNode) Name() string       { return n.name }
func (n *memNode) Size() int64        { return int64(len(n.content)) }
func (n *memNode) ModTime() time.Time { return time.Time{} }
func (n *memNode) IsDir() bool        { return n.dir }
func (n *memNode) Sys() any           { return nil }
func (n *memNode) Mode() iofs.FileMode {
	if n.dir {
		return iofs.ModeDir | 0o555
	}
	return n.mode
}

type memFile struct {
	*bytes.Reader
	node *memNode
}

func (f *memFile) Stat() (iofs.FileInfo, error) { return f.node, nil }
func (f *memFile) Close() error                 { return nil }

type memDir struct {
	node *memNode
	at   int
}

func (d *memDir) Stat() (iofs.FileInfo, error) { return d.node, nil }
func (d *memDir) Close() error                 { return nil }
func (d *memDir) Read([]byte) (int, error) {
	return 0, &iofs.PathError{Op: "read", Path: d.node.name, Err: iofs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *memDir) ReadDir(n int) ([]iofs.DirEntry, error) {
	rest := d.node.list[d.at:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	d.at += len(rest)
	return slices.Clone(rest), nil
}
