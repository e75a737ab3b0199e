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
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Piece is the shortest stretch of equal bytes that counts. Shorter ones stand in
// any two texts of one language.
const Piece = 64

const (
	window   = Piece / 2 // blocks of the hidden data that are looked for: each stretch of Piece bytes holds a whole one
	chunk    = 8 << 20   // bytes of a file that are searched at once
	overlap  = 64 << 10  // of two chunks
	distinct = 8         // a block of fewer different bytes says nothing (zeros, rules, indents)
	base     = 0x9E3779B97F4A7C15
	maxDepth = 3       // of files inside files
	maxOpen  = 2 << 30 // bytes that one compressed file may come to
	maxLeaks = 1000
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
	bloom  []uint64         // bits of hashes: most places are no block
	shift  uint
	blocks int
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

// Empty reports whether nothing that could be found was added.
func (x *Index) Empty() bool { return x.blocks == 0 }

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

// Reader searches what r gives, also inside of it where it is compressed.
func (x *Index) Reader(ctx context.Context, where string, r io.Reader) ([]Leak, error) {
	if x.bloom == nil {
		x.ready()
	}
	var out []Leak
	err := x.reader(ctx, where, r, 0, func(l Leak) { out = append(out, l) })
	return out, err
}

func (x *Index) reader(ctx context.Context, where string, r io.Reader, depth int, tell func(Leak)) error {
	buf := make([]byte, 0, chunk+overlap)
	f := found{}
	first := true
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		kept := len(buf)
		buf = buf[:min(cap(buf), kept+chunk)]
		n, err := io.ReadFull(r, buf[kept:])
		buf = buf[:kept+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if first && depth < maxDepth {
			if open := opener(buf); open != nil {
				rest := io.MultiReader(bytes.NewReader(buf), r)
				if last {
					rest = bytes.NewReader(buf)
				}
				if err := open(x, ctx, where, rest, depth, tell); err != nil && ctx.Err() != nil {
					return err // what cannot be opened is no archive, or broken
				}
				if !last {
					return nil
				}
			}
		}
		first = false
		x.search(buf, kept, f)
		if last {
			break
		}
		tail := buf[max(0, len(buf)-overlap):]
		buf = append(buf[:0], tail...)
	}
	for file, n := range f {
		tell(Leak{where, x.names[file], n})
	}
	return nil
}

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
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return unzip
	}
	return nil
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
	for _, m := range z.File {
		f, err := m.Open()
		if err != nil {
			continue
		}
		l := &io.LimitedReader{R: f, N: left}
		err = x.reader(ctx, where+"!"+m.Name, l, depth+1, tell)
		_ = f.Close()
		left = l.N
		if err != nil && ctx.Err() != nil || left <= 0 {
			return err
		}
	}
	return nil
}

// Report is what a search came to.
type Report struct {
	Leaks  []Leak   `json:"leaks"`
	Files  int      `json:"files"`            // that were searched
	Bytes  int64    `json:"bytes"`            // as they lie on disk
	Unread []string `json:"unread,omitempty"` // forms that cannot be opened here, such as .xz
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
			if err := x.reader(gctx, label+"/"+filepath.ToSlash(name), f, 0, func(l Leak) { list = append(list, l) }); err != nil {
				if gctx.Err() != nil {
					return err
				}
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			rep.Files++
			rep.Bytes += info.Size()
			if len(rep.Leaks) < maxLeaks {
				rep.Leaks = append(rep.Leaks, list...)
			}
			if e := filepath.Ext(name); (e == ".xz" || e == ".zst" || e == ".lz4") && !slices.Contains(rep.Unread, e) {
				rep.Unread = append(rep.Unread, e)
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
