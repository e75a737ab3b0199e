// Package leak looks for bytes of hidden data where contestants can read: in a
// root file system, in images, in public task sets, in packages, also inside
// compressed files.
package leak

import (
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/xi2/xz"
	"golang.org/x/sync/errgroup"
)

// Piece is the shortest stretch of equal bytes that counts. Shorter ones stand in
// any two texts of one language.
const Piece = 64

// MaxSearched bounds how much of a data set is searched, in bytes: whoever searches says
// that a larger one was not.
const MaxSearched = 2 << 30

const (
	window    = Piece / 2 // blocks of the hidden data that are looked for: each stretch of Piece bytes holds a whole one
	chunk     = 8 << 20   // bytes of a file that are searched at once
	overlap   = 64 << 10  // of two chunks
	distinct  = 8         // a block of fewer different bytes says nothing (zeros, rules, indents)
	base      = 0x9E3779B97F4A7C15
	maxDepth  = 3       // of files inside files
	maxOpen   = 2 << 30 // bytes that one compressed file may come to
	maxLeaks  = 1000
	maxUnread = 20
	maxDict   = 128 << 20 // bytes that opening one file may keep in memory; what wants more is said to be unread
)

// outgoing is base^(window-1): the weight of the byte that leaves the window.
var outgoing = func() uint64 {
	x := uint64(1)
	for range window - 1 {
		x *= base
	}
	return x
}()

// Leak is a place that holds hidden bytes.
type Leak struct {
	Where string `json:"where"` // the file; of one inside another, OUTER!INNER
	What  string `json:"what"`  // the hidden file
	Bytes int64  `json:"bytes"` // in stretches of Piece and more
}

// Index holds hidden data. Add everything, then Scan; Scan may run at once with itself.
type Index struct {
	names  []string
	data   [][]byte
	at     map[uint64]place // of a block's hash
	bloom  []uint64         // bits of hashes: most places are not a block
	shift  uint
	blocks int
	bufs   sync.Pool // of *[]byte, each of chunk+overlap bytes: archives have many small files
}

type place struct{ file, offset uint32 }

// New returns an empty index.
func New() *Index { return &Index{at: map[uint64]place{}} }

// Add adds a hidden file, whose content is kept. What is shorter than a block of 32
// bytes is not looked for: it stands anywhere.
func (x *Index) Add(name string, b []byte) error {
	if int64(len(b)) > 1<<32-1 || len(x.names) > 1<<31 {
		return fmt.Errorf("hidden file %s: over 4 GiB", name)
	}
	file := uint32(len(x.names))
	x.names, x.data = append(x.names, name), append(x.data, b)
	for i := 0; i+window <= len(b); i += window {
		block := b[i : i+window]
		if dull(block) {
			continue
		}
		h := hash(block)
		if _, ok := x.at[h]; !ok {
			x.at[h] = place{file, uint32(i)}
			x.blocks++
		}
	}
	x.bloom = nil
	return nil
}

// Forget makes hidden bytes that stand in b not count: what is shown anyhow. A
// stretch with other hidden bytes beside them is still found.
func (x *Index) Forget(b []byte) {
	x.each(b, func(h uint64) { delete(x.at, h) })
	x.blocks, x.bloom = len(x.at), nil
}

// ForgetCommon forgets what stands in at least so many of some groups of files:
// the form that all tasks of a kind have.
func (x *Index) ForgetCommon(least int, groups [][][]byte) {
	in := map[uint64]int{}
	for _, g := range groups {
		seen := map[uint64]bool{}
		for _, b := range g {
			x.each(b, func(h uint64) { seen[h] = true })
		}
		for h := range seen {
			in[h]++
		}
	}
	for h, n := range in {
		if n >= least {
			delete(x.at, h)
		}
	}
	x.blocks, x.bloom = len(x.at), nil
}

// each calls f with the hashes of the hidden blocks that stand in b as a part of
// stretches of Piece and more.
func (x *Index) each(b []byte, f func(h uint64)) {
	if len(b) < window {
		return
	}
	h := hash(b[:window])
	for i := 0; ; i++ {
		if p, ok := x.at[h]; ok {
			if start, end := x.stretch(b, i, p); end-start >= Piece {
				f(h)
			}
		}
		if i+window >= len(b) {
			return
		}
		h = (h-(uint64(b[i])+1)*outgoing)*base + uint64(b[i+window]) + 1
	}
}

// Files is how many hidden files were added.
func (x *Index) Files() int { return len(x.names) }

func hash(b []byte) (h uint64) {
	for _, c := range b {
		h = h*base + uint64(c) + 1
	}
	return h
}

// dull reports whether a block has hardly any information.
func dull(b []byte) bool {
	var seen [256]bool
	n := 0
	for _, c := range b {
		if !seen[c] {
			seen[c] = true
			if n++; n >= distinct {
				return false
			}
		}
	}
	return true
}

// ready builds the filter.
func (x *Index) ready() {
	bits := uint(16)
	for 1<<bits < 24*x.blocks && bits < 33 {
		bits++
	}
	x.bloom, x.shift = make([]uint64, 1<<bits/64), 64-bits
	for h := range x.at {
		i := spread(h) >> x.shift
		x.bloom[i/64] |= 1 << (i % 64)
	}
}

func spread(h uint64) uint64 { h ^= h >> 31; return h * 0xD6E8FEB86659FD93 }

// found counts stretches by hidden file.
type found map[uint32]int64

// search looks through b; what begins before from was searched already.
func (x *Index) search(b []byte, from int, f found) {
	if len(b) < window {
		return
	}
	h, free := hash(b[:window]), 0 // free: what lies before it is part of a stretch that was counted
	for i := 0; ; {
		if k := spread(h) >> x.shift; x.bloom[k/64]&(1<<(k%64)) != 0 && i >= free {
			if p, ok := x.at[h]; ok {
				if start, end := x.stretch(b, i, p); end-start >= Piece && end > from {
					f[p.file] += int64(end - max(start, free))
					free = end
				}
			}
		}
		if i+window >= len(b) {
			return
		}
		h = (h-(uint64(b[i])+1)*outgoing)*base + uint64(b[i+window]) + 1
		i++
	}
}

// stretch is how far b around i equals the hidden data around p.
func (x *Index) stretch(b []byte, i int, p place) (start, end int) {
	d := x.data[p.file]
	at := int(p.offset)
	if !bytes.Equal(b[i:i+window], d[at:at+window]) {
		return 0, 0
	}
	for start = i; start > 0 && at > 0 && b[start-1] == d[at-1]; start-- {
		at--
	}
	at = int(p.offset) + window
	for end = i + window; end < len(b) && at < len(d) && b[end] == d[at]; end++ {
		at++
	}
	return start, end
}

func (x *Index) reader(ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
	held, ok := x.bufs.Get().(*[]byte)
	if !ok {
		b := make([]byte, 0, chunk+overlap)
		held = &b
	}
	defer x.bufs.Put(held)
	buf := (*held)[:0]
	f := found{}
	first := true
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		had := len(buf)
		buf = buf[:min(cap(buf), had+chunk)]
		n, err := io.ReadFull(r, buf[had:])
		buf = buf[:had+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			x.search(buf, had, f) // what came before it broke counts
			x.tell(where, f, tell)
			return err
		}
		if first && depth < maxDepth {
			if open := opener(buf); open != nil {
				rest := io.MultiReader(bytes.NewReader(buf), r)
				if last {
					rest = bytes.NewReader(buf)
				}
				err := open(x, ctx, where, rest, depth, tell)
				switch {
				case err != nil && ctx.Err() != nil:
					return err
				case errors.Is(err, xz.ErrMemlimit), errors.Is(err, xz.ErrUnsupportedCheck), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
					return fmt.Errorf("%w: %s: %w", errUnread, where, err)
				} // what else cannot be opened is not an archive, or broken
				if !last {
					return nil
				}
			}
		}
		first = false
		x.search(buf, had, f)
		if last {
			break
		}
		tail := buf[max(0, len(buf)-overlap):]
		buf = append(buf[:0], tail...)
	}
	x.tell(where, f, tell)
	return nil
}

func (x *Index) tell(where string, f found, tell func(Leak)) {
	for file, n := range f {
		tell(Leak{where, x.names[file], n})
	}
}

// errUnread is a compressed file that opening would take too much for.
var errUnread = errors.New("not opened")

type opening func(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error

// opener is how a compressed file is read; nil: it is none.
func opener(head []byte) opening {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}):
		return func(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
			z, err := gzip.NewReader(r)
			if err != nil {
				return err
			}
			return x.reader(ctx, where+"!", io.LimitReader(z, maxOpen), depth+1, tell)
		}
	case bytes.HasPrefix(head, []byte("BZh")):
		return func(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
			return x.reader(ctx, where+"!", io.LimitReader(bzip2.NewReader(r), maxOpen), depth+1, tell)
		}
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return func(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
			z, err := xz.NewReader(r, maxDict)
			if err != nil {
				return err
			}
			return x.reader(ctx, where+"!", io.LimitReader(z, maxOpen), depth+1, tell)
		}
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) > 4 && head[0]&0xf0 == 0x50 && bytes.HasPrefix(head[1:], []byte{0x2a, 0x4d, 0x18}): // a frame, or one to skip
		return func(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
			z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxOpen), zstd.WithDecoderMaxWindow(maxDict))
			if err != nil {
				return err
			}
			defer z.Close()
			return x.reader(ctx, where+"!", io.LimitReader(z, maxOpen), depth+1, tell)
		}
	case bytes.HasPrefix(head, []byte{0x04, 0x22, 0x4d, 0x18}), bytes.HasPrefix(head, []byte{0x02, 0x21, 0x4c, 0x18}): // and its older form
		return func(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
			return x.reader(ctx, where+"!", io.LimitReader(lz4.NewReader(r), maxOpen), depth+1, tell)
		}
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return unzip
	case bytes.HasPrefix(head, []byte("!<arch>\n")):
		return unar
	}
	return nil
}

// unar reads the members of an archive of ar, such as a Debian package.
func unar(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
	if _, err := io.CopyN(io.Discard, r, int64(len("!<arch>\n"))); err != nil {
		return err
	}
	var head [60]byte
	var unread error
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return errors.Join(unread, err) // io.EOF: that was all
		}
		name := strings.TrimRight(string(head[:16]), " /")
		size, err := strconv.ParseInt(strings.TrimRight(string(head[48:58]), " "), 10, 64)
		if err != nil || size < 0 || string(head[58:]) != "`\n" {
			return errors.Join(unread, errors.New("no member of an archive"))
		}
		member := io.LimitReader(r, size)
		switch err := x.reader(ctx, where+"!"+name, member, depth+1, tell); {
		case err != nil && ctx.Err() != nil:
			return err
		case errors.Is(err, errUnread):
			unread = err
		}
		// What the search left, and the byte that makes sizes even.
		if _, err := io.CopyN(io.Discard, r, member.(*io.LimitedReader).N+size%2); err != nil {
			return errors.Join(unread, err)
		}
	}
}

// unzip reads the members of an archive, which needs all of it.
func unzip(x *Index, ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
	b, err := io.ReadAll(io.LimitReader(r, 256<<20))
	if err != nil {
		return err
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	left := int64(maxOpen)
	var unread error
	for _, m := range z.File {
		f, err := m.Open()
		if err != nil {
			continue
		}
		l := &io.LimitedReader{R: f, N: left}
		err = x.reader(ctx, where+"!"+m.Name, l, depth+1, tell)
		_ = f.Close()
		left = l.N
		if errors.Is(err, errUnread) {
			unread = err
		}
		if err != nil && ctx.Err() != nil || left <= 0 {
			return errors.Join(unread, err)
		}
	}
	return unread
}

// Report is what a search came to.
type Report struct {
	Leaks  []Leak   `json:"leaks"`
	Files  int      `json:"files"`            // that were searched
	Bytes  int64    `json:"bytes"`            // as they lie on disk
	Unread []string `json:"unread,omitempty"` // compressed files that want too much memory, the first of them
}

// Dir searches the regular files below a directory; label stands before their names.
func (x *Index) Dir(ctx context.Context, label, dir string, rep *Report) error {
	if x.bloom == nil {
		x.ready()
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("search %s: %w", label, err)
	}
	defer func() { _ = root.Close() }()
	var mu sync.Mutex // guards rep
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if gctx.Err() != nil {
			return gctx.Err()
		}
		g.Go(func() error {
			f, err := root.Open(name)
			if err != nil {
				return nil // it has gone, or may not be read
			}
			defer func() { _ = f.Close() }()
			info, err := f.Stat()
			if err != nil || !info.Mode().IsRegular() {
				return nil
			}
			var list []Leak
			err = x.reader(gctx, label+"/"+filepath.ToSlash(name), f, 0, func(l Leak) { list = append(list, l) })
			if gctx.Err() != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			rep.Files++
			rep.Bytes += info.Size()
			if len(rep.Leaks) < maxLeaks {
				rep.Leaks = append(rep.Leaks, list...)
			}
			if errors.Is(err, errUnread) && len(rep.Unread) < maxUnread {
				rep.Unread = append(rep.Unread, label+"/"+filepath.ToSlash(name))
			}
			return nil
		})
		return nil
	})
	if err = errors.Join(err, g.Wait()); err != nil {
		return fmt.Errorf("search %s: %w", label, err)
	}
	slices.SortFunc(rep.Leaks, func(a, b Leak) int {
		if a.Bytes != b.Bytes {
			return int(min(max(b.Bytes-a.Bytes, -1), 1))
		}
		return strings.Compare(a.Where+a.What, b.Where+b.What)
	})
	slices.Sort(rep.Unread)
	return nil
}
