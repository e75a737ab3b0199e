package imagebuild

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// files are where one COPY takes what it copies.
type files struct {
	root    *os.Root
	ignored func(string) bool
	where   string // for people
}

// open finds where a step copies from: the context, a stage or an image.
func (b *builder) open(ctx context.Context, s step) (files, func(), error) {
	if len(s.texts) > 0 {
		return s.laid()
	}
	if s.src == nil {
		ignored, err := b.ignored()
		if err != nil {
			return files{}, nil, s.bad("%v", err)
		}
		return files{b.context, ignored, "the directory"}, func() {}, nil
	}
	img, err := b.made[s.src.stage], error(nil)
	if s.src.stage == nil {
		if img, err = b.image(s.src.image); err != nil {
			return files{}, nil, s.because(err)
		}
	}
	if img == nil {
		return files{}, nil, s.bad("there is nothing in scratch")
	}
	tree, err := b.Images.Open(ctx, img)
	if err != nil {
		return files{}, nil, err
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return files{}, nil, err
	}
	return files{root, func(string) bool { return false }, "what it is copied from"}, func() { _ = root.Close() }, nil
}

// found is one file or directory that is copied, and what it is called.
type found struct{ at, name string }

// copy lays files into the box, where links of the image are followed as the box
// sees them.
func (b *builder) copy(ctx context.Context, s step) error {
	src, done, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	var all []found
	for _, pattern := range s.from {
		m, err := src.match(pattern, s.src != nil)
		if err != nil {
			return s.bad("%v", err)
		}
		all = append(all, m...)
	}
	to, into := strings.TrimSuffix(s.to, "/"), strings.HasSuffix(s.to, "/") || len(all) > 1
	if to == "" {
		into = true
	}
	if !into { // a directory that is there takes a file into it
		fi, err := src.root.Stat(all[0].at)
		if err == nil && !fi.IsDir() {
			x, err := b.exec(ctx, "/", nil, nil, io.Discard, ownBin+"/sh", "-c", `test -d "$1"`, "sh", s.to)
			if err != nil {
				return fmt.Errorf("line %d, %s: %w", s.line, s.word, err)
			}
			into = x.Code == 0
		}
	}
	pr, pw := io.Pipe()
	ended := make(chan struct{}) // src is read until then
	go func() {
		defer close(ended)
		pw.CloseWithError(src.archive(pw, s, all, strings.TrimPrefix(to, "/"), into))
	}()
	defer func() { _ = pr.Close(); <-ended }()
	caught := &caught{r: pr}
	err = b.must(ctx, s, "/", []string{"PATH=" + ownBin}, caught, ownBin+"/tar", "-x", "-C", "/", "--no-same-owner", "--keep-directory-symlink", "-p", "-f", "-")
	if caught.err != nil {
		return s.bad("%v", caught.err)
	}
	return err
}

// caught keeps the error of a reader, of which a command hears nothing.
type caught struct {
	r   io.Reader
	err error
}

func (c *caught) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// match finds what a pattern names. In an image, links on the way and the last one
// are followed as a box would.
func (f files) match(pattern string, image bool) ([]found, error) {
	names := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		m, err := fs.Glob(f.root.FS(), pattern)
		if err != nil || len(m) == 0 {
			return nil, fmt.Errorf("%.200q matches nothing in %s", pattern, f.where)
		}
		if len(m) > maxFiles {
			return nil, fmt.Errorf("%.200q matches more than %d files", pattern, maxFiles)
		}
		names = m
	}
	var out []found
	for _, n := range names {
		x := found{n, path.Base(n)}
		if image {
			x.at = followed(f.root, n)
		}
		if _, err := f.root.Stat(x.at); err != nil {
			return nil, fmt.Errorf("%.200q is not in %s", n, f.where)
		}
		out = append(out, x)
	}
	return out, nil
}

// followed is where a path of an image's tree leads, whose absolute links begin at
// the tree; the path itself where that leads nowhere.
func followed(root *os.Root, p string) string {
	done, rest := ".", strings.Split(p, "/")
	for hops := 0; len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		at := path.Join(done, next)
		to, err := root.Readlink(at)
		if err != nil {
			done = at
			continue
		}
		if hops++; hops > 40 {
			return p
		}
		if path.IsAbs(to) {
			done = "."
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done
}

// archive writes what is copied as it shall stand in the image.
func (f files) archive(w io.Writer, s step, all []found, to string, into bool) error {
	t := tar.NewWriter(w)
	left, n := int64(maxCopied), 0
	made := map[string]bool{".": true, "": true}
	var dirs func(p string) error
	dirs = func(p string) error { // parents, as Docker makes them
		if p == "." || p == "" || made[p] {
			return nil
		}
		if err := dirs(path.Dir(p)); err != nil {
			return err
		}
		made[p] = true
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: p + "/", Mode: 0o755, ModTime: epoch})
	}
	put := func(from, at string) error {
		return fs.WalkDir(f.root.FS(), from, func(p string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if f.ignored(p) {
				return nil // a directory is walked all the same: something in it may be named again
			}
			if n++; n > maxFiles {
				return fmt.Errorf("more than %d files", maxFiles)
			}
			rel := strings.TrimPrefix(strings.TrimPrefix(p, from), "/")
			if from == "." {
				rel = strings.TrimPrefix(p, "./")
				if p == "." {
					rel = ""
				}
			}
			name := path.Join(at, rel)
			if name == "" || name == "." {
				return nil
			}
			fi, err := f.root.Lstat(p)
			if err != nil {
				return err
			}
			if err := dirs(path.Dir(name)); err != nil {
				return err
			}
			h := &tar.Header{Name: name, Mode: int64(fi.Mode().Perm()), ModTime: epoch}
			if s.chmod != "" && !fi.IsDir() {
				_, _ = fmt.Sscanf(s.chmod, "%o", &h.Mode)
			}
			switch {
			case fi.IsDir():
				if made[name] {
					return nil
				}
				made[name] = true
				h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
				return t.WriteHeader(h)
			case fi.Mode()&fs.ModeSymlink != 0:
				h.Typeflag = tar.TypeSymlink
				if h.Linkname, err = f.root.Readlink(p); err != nil {
					return err
				}
				return t.WriteHeader(h)
			case !fi.Mode().IsRegular():
				return fmt.Errorf("%.200q is neither file, directory nor link", p)
			}
			in, err := f.root.Open(p)
			if err != nil {
				return err
			}
			defer in.Close()
			h.Typeflag, h.Size = tar.TypeReg, fi.Size()
			if left -= h.Size; left < 0 {
				return fmt.Errorf("more than %d bytes", int64(maxCopied))
			}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			_, err = io.CopyN(t, in, h.Size)
			return err
		})
	}
	for _, x := range all {
		fi, err := f.root.Stat(x.at)
		if err != nil {
			return err
		}
		at := to
		if !fi.IsDir() && into {
			at = path.Join(to, x.name)
		}
		if err := put(x.at, at); err != nil {
			return err
		}
	}
	return t.Close()
}

// epoch is when copied files were made: the same bytes make the same image.
var epoch = time.Unix(1, 0)

// ignored reads .dockerignore: patterns of paths, ! takes one back.
func (b *builder) ignored() (func(string) bool, error) {
	text, err := readFile(b.context, ".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		return func(string) bool { return false }, nil
	}
	if err != nil {
		return nil, err
	}
	type rule struct {
		pattern string
		back    bool
	}
	var rules []rule
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		p, back := strings.CutPrefix(l, "!")
		if len(rules) < 1000 {
			rules = append(rules, rule{strings.Trim(path.Clean("/"+p), "/"), back})
		}
	}
	return func(p string) bool {
		out := false
		for _, r := range rules {
			for q := p; q != "." && q != ""; q = path.Dir(q) {
				whole, _ := path.Match(r.pattern, q)
				deep := false
				if rest, ok := strings.CutPrefix(r.pattern, "**/"); ok {
					deep, _ = path.Match(rest, path.Base(q))
				}
				if whole || deep {
					out = !r.back
					break
				}
			}
		}
		return out
	}, nil
}
