package blob

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
)

// Modes of an Entry.
const (
	ModeFile = "file"
	ModeExec = "exec"
	ModeLink = "link"
)

// TreeLimits bound a tree. A zero field means the default.
type TreeLimits struct {
	Files     int   // entries; default 20,000
	FileBytes int64 // one file; default 32 MiB
	Bytes     int64 // all files together; default 512 MiB
	// Spare reports whether a file may be missing: GetFiles leaves it out then. nil: none may.
	Spare func(path string) bool
}

const (
	maxPath     = 1024 // bytes of one path
	maxLink     = 4096 // bytes of a link's target
	maxManifest = 16 << 20
)

func (l TreeLimits) orDefault() TreeLimits {
	if l.Files <= 0 {
		l.Files = 20_000
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 32 << 20
	}
	if l.Bytes <= 0 {
		l.Bytes = 512 << 20
	}
	return l
}

// File is one file of a tree in memory. Mode is ModeFile if empty; the Content
// of a link is its target.
type File struct {
	Path    string
	Mode    string
	Content []byte
}

// Canonical returns the one JSON form of m: sorted by path, no white space.
func (m Manifest) Canonical() ([]byte, error) {
	files := slices.Clone(m.Files)
	slices.SortFunc(files, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	if files == nil {
		files = []Entry{}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(Manifest{Files: files}); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// ParseManifest reads the canonical form, and only that: the same tree has one
// digest. It refuses unsafe paths, files below files, and trees over l.
func ParseManifest(b []byte, l TreeLimits) (Manifest, error) {
	l = l.orDefault()
	var m Manifest
	if len(b) > maxManifest {
		return m, fmt.Errorf("parse manifest: %w: %d bytes, limit %d bytes", ErrTooLarge, len(b), maxManifest)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("parse manifest: %w", err)
	}
	if err := m.check(l); err != nil {
		return Manifest{}, fmt.Errorf("parse manifest: %w", err)
	}
	c, err := m.Canonical()
	if err != nil {
		return Manifest{}, err
	}
	if !bytes.Equal(c, b) {
		return Manifest{}, errors.New("parse manifest: not in canonical form")
	}
	return m, nil
}

// check verifies every entry and the limits, whatever the order of m.
func (m Manifest) check(l TreeLimits) error {
	if len(m.Files) > l.Files {
		return fmt.Errorf("%w: %d files, limit %d", ErrTooLarge, len(m.Files), l.Files)
	}
	var total int64
	seen := make(map[string]bool, len(m.Files))
	for _, e := range m.Files {
		if err := CheckPath(e.Path); err != nil {
			return err
		}
		if seen[e.Path] {
			return fmt.Errorf("file %q: named twice", e.Path)
		}
		seen[e.Path] = true
		if err := e.Digest.Validate(); err != nil {
			return fmt.Errorf("file %q: %w", e.Path, err)
		}
		limit := l.FileBytes
		switch e.Mode {
		case ModeFile, ModeExec:
		case ModeLink:
			limit = maxLink
		default:
			return fmt.Errorf("file %q: unknown mode %q", e.Path, e.Mode)
		}
		if e.Size < 0 || e.Size > limit {
			return fmt.Errorf("file %q: %w: %d bytes, limit %d bytes", e.Path, ErrTooLarge, e.Size, limit)
		}
		total += e.Size // cannot overflow: both factors are bounded
		if total > l.Bytes {
			return fmt.Errorf("%w: over %d bytes in all", ErrTooLarge, l.Bytes)
		}
	}
	for p := range seen {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if seen[d] {
				return fmt.Errorf("file %q: lies below the file %q", p, d)
			}
		}
	}
	return nil
}

// CheckPath refuses paths that are not plain, relative, slash-separated names:
// nothing that a file system, a shell or a terminal could take for more.
func CheckPath(p string) error {
	switch {
	case !iofs.ValidPath(p) || p == ".":
		return fmt.Errorf("path %q: want a relative path with no dot elements", p)
	case len(p) > maxPath:
		return fmt.Errorf("path %.40q…: %d bytes, limit %d bytes", p, len(p), maxPath)
	case !utf8.ValidString(p):
		return fmt.Errorf("path %q: not UTF-8", p)
	case strings.ContainsAny(p, "\\"):
		return fmt.Errorf("path %q: holds a backslash", p)
	}
	for _, r := range p {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return fmt.Errorf("path %q: holds a control character", p)
		}
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > 255 {
			return fmt.Errorf("path %.40q…: a name of %d bytes, limit 255 bytes", p, len(part))
		}
	}
	return nil
}

// Sealed are files as a tree, each file's bytes hashed once.
type Sealed struct {
	Digest agon.Digest // of the tree
	Sums   []agon.Digest
	Files  []File // Sums[i] is of Files[i].Content

	manifest Manifest
}

// Seal hashes files and checks them as a tree, storing nothing.
func Seal(files []File, l TreeLimits) (*Sealed, error) {
	t := &Sealed{Files: files}
	for _, f := range files {
		d := agon.Sum(f.Content)
		t.Sums = append(t.Sums, d)
		t.manifest.Files = append(t.manifest.Files, Entry{Path: f.Path, Mode: cmp.Or(f.Mode, ModeFile), Size: int64(len(f.Content)), Digest: d})
	}
	if err := t.manifest.check(l.orDefault()); err != nil {
		return nil, err
	}
	b, err := t.manifest.Canonical()
	if err != nil {
		return nil, err
	}
	t.Digest = agon.Sum(b)
	return t, nil
}

// Put stores the tree. All blobs are durable before the manifest is.
func (t *Sealed) Put(ctx context.Context, s Store) error {
	// Each content once, several at a time: a store may be a network away.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	seen := map[agon.Digest]bool{}
	for i, f := range t.Files {
		if seen[t.Sums[i]] {
			continue
		}
		seen[t.Sums[i]] = true
		g.Go(func() error {
			_, err := s.Put(gctx, f.Content)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := putManifest(ctx, s, t.manifest)
	return err
}

// PutFiles is Seal and Put; it returns the tree's digest.
func PutFiles(ctx context.Context, s Store, files []File, l TreeLimits) (agon.Digest, error) {
	t, err := Seal(files, l)
	if err != nil {
		return "", fmt.Errorf("put tree: %w", err)
	}
	if err := t.Put(ctx, s); err != nil {
		return "", err
	}
	return t.Digest, nil
}

func putManifest(ctx context.Context, s Store, m Manifest) (agon.Digest, error) {
	b, err := m.Canonical()
	if err != nil {
		return "", err
	}
	if len(b) > maxManifest {
		return "", fmt.Errorf("put tree: %w: manifest of %d bytes, limit %d bytes", ErrTooLarge, len(b), maxManifest)
	}
	return s.Put(ctx, b)
}

// PutTree stores the directory dir as a tree and returns its digest. It never
// follows a symlink; anything but regular files, directories and links is
// refused. Empty directories are not part of a tree.
func PutTree(ctx context.Context, s Store, dir string, l TreeLimits) (agon.Digest, error) {
	m, err := walkTree(ctx, dir, l, func(b []byte) (agon.Digest, error) { return s.Put(ctx, b) })
	if err != nil {
		return "", fmt.Errorf("put tree: %w", err)
	}
	return putManifest(ctx, s, m)
}

// SumTree returns the digest that PutTree would give dir, storing nothing.
func SumTree(ctx context.Context, dir string, l TreeLimits) (agon.Digest, error) {
	m, err := walkTree(ctx, dir, l, func(b []byte) (agon.Digest, error) { return agon.Sum(b), nil })
	if err != nil {
		return "", fmt.Errorf("sum tree: %w", err)
	}
	b, err := m.Canonical()
	if err != nil {
		return "", err
	}
	return agon.Sum(b), nil
}

func walkTree(ctx context.Context, dir string, l TreeLimits, put func([]byte) (agon.Digest, error)) (Manifest, error) {
	l = l.orDefault()
	var m Manifest
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer root.Close()
	var total int64
	err = iofs.WalkDir(root.FS(), ".", func(p string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		if err := CheckPath(p); err != nil {
			return err
		}
		if len(m.Files) >= l.Files {
			return fmt.Errorf("%w: over %d files", ErrTooLarge, l.Files)
		}
		b, mode, err := readEntry(root, p, d.Type(), min(l.FileBytes, l.Bytes-total))
		if err != nil {
			return fmt.Errorf("file %q: %w", p, err)
		}
		total += int64(len(b))
		digest, err := put(b)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, Entry{Path: p, Mode: mode, Size: int64(len(b)), Digest: digest})
		return nil
	})
	if err != nil {
		return Manifest{}, err
	}
	return m, m.check(l)
}

// readEntry reads one regular file or link. The type is taken again from the
// open file: what the listing said may have been replaced since.
func readEntry(root *os.Root, p string, t iofs.FileMode, limit int64) ([]byte, string, error) {
	if t&iofs.ModeSymlink != 0 {
		target, err := root.Readlink(p)
		if err != nil {
			return nil, "", err
		}
		if int64(len(target)) > min(limit, maxLink) {
			return nil, "", fmt.Errorf("%w: link target of %d bytes", ErrTooLarge, len(target))
		}
		return []byte(target), ModeLink, nil
	}
	if !t.IsRegular() {
		return nil, "", fmt.Errorf("not a regular file (%s)", t)
	}
	f, err := openPlain(root, p)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if !fi.Mode().IsRegular() {
		return nil, "", fmt.Errorf("not a regular file (%s)", fi.Mode())
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, "", err
	}
	if int64(len(b)) > limit {
		return nil, "", fmt.Errorf("%w: over %d bytes", ErrTooLarge, limit)
	}
	if fi.Mode()&0o100 != 0 {
		return b, ModeExec, nil
	}
	return b, ModeFile, nil
}

// GetManifest reads and checks the manifest d within l.
func GetManifest(ctx context.Context, s Store, d agon.Digest, l TreeLimits) (Manifest, error) {
	b, err := s.Get(ctx, d)
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(b, l)
	if err != nil {
		return Manifest{}, fmt.Errorf("tree %s: %w", d, err)
	}
	return m, nil
}

// GetFiles reads a whole tree into memory, by path. Use it for small trees.
func GetFiles(ctx context.Context, s Store, d agon.Digest, l TreeLimits) ([]File, error) {
	m, err := GetManifest(ctx, s, d, l)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(m.Files))
	for _, e := range m.Files {
		b, err := getEntry(ctx, s, e)
		if l.Spare != nil && errors.Is(err, ErrNotFound) && l.Spare(e.Path) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tree %s: %w", d, err)
		}
		files = append(files, File{Path: e.Path, Mode: e.Mode, Content: b})
	}
	return files, nil
}

func getEntry(ctx context.Context, s Store, e Entry) ([]byte, error) {
	b, err := s.Get(ctx, e.Digest)
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", e.Path, err)
	}
	if int64(len(b)) != e.Size {
		return nil, fmt.Errorf("file %q: %w: %d bytes, manifest says %d", e.Path, ErrCorrupt, len(b), e.Size)
	}
	return b, nil
}

// Materialise writes the tree d into dir, which must not exist. It is built
// beside dir and renamed into place, so that dir is whole or missing. Links are
// made last and never followed; what they point at is foreign, so open the
// result with os.Root or mount it. Files are 0644 or 0755, directories 0755.
func Materialise(ctx context.Context, s Store, d agon.Digest, dir string, l TreeLimits) (err error) {
	m, err := GetManifest(ctx, s, d, l)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".tree-*")
	if err != nil {
		return fmt.Errorf("materialise %s: %w", d, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("materialise %s: %w", d, err), os.RemoveAll(tmp))
		}
	}()
	if err := writeTree(ctx, s, m, tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return renameNew(tmp, dir)
}

func writeTree(ctx context.Context, s Store, m Manifest, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var links []Entry
	for _, e := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.Mode == ModeLink {
			links = append(links, e)
			continue
		}
		b, err := getEntry(ctx, s, e)
		if err != nil {
			return err
		}
		if err := mkdirFor(root, e.Path); err != nil {
			return err
		}
		perm := iofs.FileMode(0o644)
		if e.Mode == ModeExec {
			perm = 0o755
		}
		if err := writeNew(root, e.Path, b, perm); err != nil {
			return err
		}
	}
	// No file can be written through a link: there is none until all files are there.
	for _, e := range links {
		b, err := getEntry(ctx, s, e)
		if err != nil {
			return err
		}
		if len(b) == 0 || bytes.IndexByte(b, 0) >= 0 {
			return fmt.Errorf("file %q: link target is not a path", e.Path)
		}
		if err := mkdirFor(root, e.Path); err != nil {
			return err
		}
		if err := root.Symlink(string(b), e.Path); err != nil {
			return err
		}
	}
	return nil
}

func mkdirFor(root *os.Root, p string) error {
	if d := path.Dir(p); d != "." {
		return root.MkdirAll(d, 0o755)
	}
	return nil
}

func writeNew(root *os.Root, p string, b []byte, perm iofs.FileMode) error {
	f, err := root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(perm) // the umask must not change what a tree is
	}
	return errors.Join(err, f.Close())
}

// SumFiles returns the digest that PutFiles would give files, storing nothing.
func SumFiles(files []File, l TreeLimits) (agon.Digest, error) {
	t, err := Seal(files, l)
	if err != nil {
		return "", fmt.Errorf("sum tree: %w", err)
	}
	return t.Digest, nil
}
