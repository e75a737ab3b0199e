package rootfs

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/internal/entry"
	"github.com/agon-arena/agon/sandbox/internal/layers"
)

// Commit makes an image of base (nil: of nothing) and one more layer, a plain
// archive (nil: none), with a configuration, and keeps it under name. What
// processes write in the layer is as hostile as any image's.
func (s *Images) Commit(ctx context.Context, base *Image, plain io.Reader, config ImageConfig, name string) (*Image, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var list []layer
	ids := []string{}
	if base != nil {
		list = slices.Clone(base.layers)
		if ids, err = diffIDs(base.config); err != nil {
			return nil, err
		}
	}
	var copied int64
	if plain != nil {
		l, id, err := s.keepPlain(ctx, plain)
		if err != nil {
			return nil, err
		}
		list, ids, copied = append(list, l), append(ids, id), l.size
	}
	if len(list) > maxLayers {
		return nil, fmt.Errorf("%w: %d layers, at most %d", ErrTooLarge, len(list), maxLayers)
	}
	doc, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": ids},
		"config": map[string]any{
			"Env": config.Env, "WorkingDir": config.WorkingDir, "User": config.User, "Entrypoint": config.Entrypoint, "Cmd": config.Cmd, "Labels": config.Labels,
		},
	})
	if err != nil {
		return nil, err
	}
	if _, err := configOf(doc); err != nil {
		return nil, err
	}
	said := []map[string]any{}
	for _, l := range list {
		said = append(said, map[string]any{"mediaType": s.mediaType(l), "digest": l.digest, "size": l.size})
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": said,
		"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digestOf(doc), "size": len(doc)},
	})
	if err != nil {
		return nil, err
	}
	digest := digestOf(manifest)
	for d, b := range map[string][]byte{digestOf(doc): doc, digest: manifest} {
		if err := writeFile(s.blob(d), b); err != nil {
			return nil, err
		}
	}
	img, err := s.name(digest, name)
	if err != nil {
		return nil, err
	}
	img.Copied = copied
	return img, nil
}

// name notes a name of an image, which no other keeps. The caller holds the lock.
func (s *Images) name(digest, name string) (*Image, error) {
	list, err := s.records()
	if err != nil {
		return nil, err
	}
	rec := record{Digest: digest}
	for _, r := range list {
		switch {
		case r.Digest == digest:
			rec = r
		case name != "" && slices.Contains(r.Names, name):
			r.Names = slices.DeleteFunc(r.Names, func(n string) bool { return n == name })
			if err := s.writeRecord(r); err != nil {
				return nil, err
			}
		}
	}
	if name != "" && !slices.Contains(rec.Names, name) {
		rec.Names = append(rec.Names, name)
	}
	if err := s.writeRecord(rec); err != nil {
		return nil, err
	}
	return s.image(rec)
}

func (s *Images) writeRecord(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(s.recordAt(r.Digest), b)
}

// mediaType is of a stored layer, by how it begins.
func (s *Images) mediaType(l layer) string {
	const plain = "application/vnd.oci.image.layer.v1.tar"
	f, err := os.Open(s.blob(l.digest))
	if err != nil {
		return plain
	}
	defer f.Close()
	head := make([]byte, 4)
	_, _ = io.ReadFull(f, head)
	if c := compressed(head); c != "" {
		return plain + "+" + c
	}
	return plain
}

// keepPlain stores a plain archive as a layer, compressed, and returns both digests.
func (s *Images) keepPlain(ctx context.Context, plain io.Reader) (layer, string, error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "blobs", "sha256"), ".new-")
	if err != nil {
		return layer{}, "", fmt.Errorf("store layer: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	stored, flat := sha256.New(), sha256.New()
	counted := &counter{w: io.MultiWriter(f, stored)}
	z, err := gzip.NewWriterLevel(counted, gzip.BestSpeed)
	if err != nil {
		return layer{}, "", err
	}
	n, err := io.Copy(io.MultiWriter(z, flat), &stopping{ctx, io.LimitReader(plain, maxImageBytes+1)})
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err != nil {
		return layer{}, "", fmt.Errorf("store layer: %w", err)
	}
	if n > maxImageBytes {
		return layer{}, "", fmt.Errorf("%w: a layer of more than %d bytes", ErrTooLarge, int64(maxImageBytes))
	}
	l := layer{"sha256:" + hex.EncodeToString(stored.Sum(nil)), counted.n}
	return l, "sha256:" + hex.EncodeToString(flat.Sum(nil)), os.Rename(f.Name(), s.blob(l.digest))
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// FirstID is the host's number of a box's user 0.
const FirstID = layers.HostBase

// WriteLayer writes what an overlay's upper directory holds as a layer: files,
// whiteouts and opaque marks, in order of their names, by no clock but the
// files' own. Owners are counted from first. skip leaves paths out. Nothing may
// run in dir any more.
func WriteLayer(w io.Writer, dir string, first int, skip func(p string) bool) error {
	t := tar.NewWriter(w)
	links := map[uint64]string{}
	err := filepath.WalkDir(dir, func(at string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p, err := filepath.Rel(dir, at)
		if err != nil || p == "." {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return err
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if skip != nil && skip(p) {
			if isDir {
				return filepath.SkipDir
			}
			return nil
		}
		h := &tar.Header{Name: p, Mode: int64(st.Mode & 0o1777), Uid: max(0, int(st.Uid)-first), Gid: max(0, int(st.Gid)-first), Format: tar.FormatPAX}
		h.ModTime = time.Unix(st.Mtim.Sec, 0)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			h.Typeflag, h.Name = tar.TypeDir, p+"/"
		case unix.S_IFLNK:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = os.Readlink(at); err != nil {
				return err
			}
		case unix.S_IFREG:
			h.Typeflag, h.Size = tar.TypeReg, st.Size
			if first, ok := links[st.Ino]; ok && st.Nlink > 1 {
				h.Typeflag, h.Size, h.Linkname = tar.TypeLink, 0, first
			}
			links[st.Ino] = p
		case unix.S_IFCHR:
			if st.Rdev != 0 {
				return nil
			}
			h = &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Dir(p), whiteout+path.Base(p)), Mode: 0o600}
		default:
			return nil
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if isDir {
			mark := make([]byte, 1)
			if n, err := unix.Lgetxattr(at, "trusted.overlay.opaque", mark); err == nil && n == 1 && mark[0] == 'y' {
				return t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(p, opaque), Mode: 0o600})
			}
			return nil
		}
		if h.Typeflag != tar.TypeReg || h.Size == 0 {
			return nil
		}
		f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(t, f)
		return err
	})
	if err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return t.Close()
}

var suiteName = lazyregexp.New(`^[a-z][a-z0-9.-]{1,30}$`)

// bootstrapped is a reference to a minimal Debian or Ubuntu of a release, made by
// mmdebstrap from the host's package sources: apt:trixie.
const bootstrapped = "apt:"

// bootstrap makes such an image, once.
func (s *Images) bootstrap(ctx context.Context, ref string) (*Image, error) {
	suite := strings.TrimPrefix(ref, bootstrapped)
	if !suiteName().MatchString(suite) {
		return nil, badImage("%.100q is not a release of Debian or Ubuntu: want apt:bookworm", ref)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: only root makes %s", ErrUnsupported, ref)
	}
	dir := filepath.Join(s.dir, "bootstrap")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make image cache: %w", err)
	}
	unlock, err := entry.Lock(ctx, filepath.Join(dir, ".lock"), ref)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if img, err := s.Get(ref); err == nil { // another process made it while we waited
		return img, nil
	}
	if err := sweepTemp(dir); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return nil, fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = removeAll(tmp) }()
	if err := os.Chmod(tmp, 0o711); err != nil {
		return nil, err
	}
	tree := filepath.Join(tmp, "root")
	r := recipe{Version: recipeVersion, Arch: runtime.GOARCH, Suite: suite, Packages: []string{"ca-certificates"}}
	if r.Distro, _ = hostRelease("/etc/os-release"); r.Distro != "debian" && r.Distro != "ubuntu" {
		return nil, fmt.Errorf("%w: this is not Debian or Ubuntu", ErrUnsupported)
	}
	if err := debian(ctx, r, tree, s.log); err != nil {
		return nil, err
	}
	pr, pw := io.Pipe()
	go func() {
		pw.CloseWithError(WriteLayer(pw, tree, 0, func(p string) bool {
			return strings.HasPrefix(p, "var/lib/apt/lists/") || strings.HasPrefix(p, "var/cache/apt/") || strings.HasPrefix(p, "var/log/") || p == "dev" || p == "etc/apt/sources.list"
		}))
	}()
	defer pr.Close()
	return s.Commit(ctx, nil, pr, ImageConfig{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Cmd: []string{"/bin/bash"}}, ref)
}

// Release is the distribution of a tree and its code name; "" where it says none.
func Release(tree string) (id, codename string) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", ""
	}
	defer root.Close()
	for _, p := range []string{"etc/os-release", "usr/lib/os-release"} {
		f, err := root.Open(p)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(f, 64<<10))
		_ = f.Close()
		if err == nil {
			return releaseOf(b)
		}
	}
	return "", ""
}

// Source is an archive of packages.
type Source struct {
	URI    string
	Suites []string
}

// Sources are where packages of a distribution's release come from: the host's
// own archives where it is of the same distribution, else the public ones.
func Sources(id, codename string) ([]Source, error) {
	if !suiteName().MatchString(codename) {
		return nil, errors.New("the image does not say of which release it is")
	}
	if own, suite := hostRelease("/etc/os-release"); own == id && suite != "" {
		var out []Source
		for _, line := range hostSources("/etc/apt", suite) {
			f := strings.Fields(line[strings.Index(line, "]")+1:])
			if f[0] == "deb" {
				f = f[1:]
			}
			if len(f) >= 2 && strings.HasPrefix(f[0], "http") {
				out = addSource(out, f[0], codename+strings.TrimPrefix(f[1], suite))
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	switch id {
	case "debian":
		return []Source{
			{"http://deb.debian.org/debian", []string{codename, codename + "-updates"}}, {"http://deb.debian.org/debian-security", []string{codename + "-security"}},
		}, nil
	case "ubuntu":
		return []Source{{"http://archive.ubuntu.com/ubuntu", []string{codename, codename + "-updates", codename + "-security"}}}, nil
	}
	return nil, fmt.Errorf("packages of %.40q are not known here", id)
}

func addSource(list []Source, uri, suite string) []Source {
	for i := range list {
		if list[i].URI == uri {
			list[i].Suites = append(list[i].Suites, suite)
			return list
		}
	}
	return append(list, Source{uri, []string{suite}})
}

// Lock waits for the exclusive lock on path, or until ctx ends; what is made
// under it is for the error.
func Lock(ctx context.Context, path, what string) (unlock func(), err error) {
	return entry.Lock(ctx, path, what)
}
