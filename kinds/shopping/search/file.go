package search

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
)

// An index file is: magic, the products' rows, the columns, and a trailer of
// fixed size: where the columns start, how long they are, their SHA-256, magic.
// Rows are read when they are asked for; the columns are loaded and checked.
// Numbers are little-endian.
const (
	formatVersion = 3
	magic         = "agonshop"
	trailerSize   = 8 + 8 + sha256.Size + len(magic)
)

// ErrIndex is wrapped by what Open returns for a file that is not an index, an index of another version, or a damaged one.
var ErrIndex = errors.New("not a usable index")

// Build indexes the catalogue that it reads from in and writes the index to
// path: a temporary file beside it, synced, then renamed. Nothing is left
// behind where it fails. Memory is some 400 bytes per product and 10 per word
// of it; the products themselves go straight to the file.
func Build(ctx context.Context, in io.Reader, path string) (Meta, error) {
	return BuildOf(ctx, catalogue.NewReader(in), path)
}

// BuildOf is Build of a catalogue that is open, and may skip lines.
func BuildOf(ctx context.Context, in *catalogue.Reader, path string) (meta Meta, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	out := bufio.NewWriterSize(f, 1<<20)
	if _, err := out.WriteString(magic); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	w := newBuilder(out)
	if err := w.read(ctx, in); err != nil {
		return meta, err
	}
	start := uint64(len(magic)) + w.at
	x := w.finish()
	c := &columns{w: out, sum: sha256.New()}
	if err := x.columns(c); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	var trailer []byte
	trailer = binary.LittleEndian.AppendUint64(trailer, start)
	trailer = binary.LittleEndian.AppendUint64(trailer, c.n)
	trailer = c.sum.Sum(trailer)
	trailer = append(trailer, magic...)
	if _, err := out.Write(trailer); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	if err := out.Flush(); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	if err := f.Chmod(0o644); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	if err := f.Sync(); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	if err := f.Close(); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return meta, fmt.Errorf("build index: %w", err)
	}
	return x.meta, syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("build index: %w", err)
	}
	if err := d.Sync(); err != nil {
		_ = d.Close()
		return fmt.Errorf("build index: %w", err)
	}
	return d.Close()
}

// columns writes the columns, or reads them: one list of them serves both, so
// that the two cannot differ.
type columns struct {
	w    io.Writer // nil when reading
	sum  hash.Hash
	n    uint64
	rest []byte // what is left to read
	err  error
}

func (c *columns) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
		_, _ = c.sum.Write(b)
		c.n += uint64(len(b))
	}
}

// length writes or reads a count; elements are size bytes each.
func (c *columns) length(n, size int) int {
	if c.w != nil {
		c.write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
		return n
	}
	b := c.take(8)
	if c.err != nil {
		return 0
	}
	v := binary.LittleEndian.Uint64(b)
	if v > uint64(len(c.rest)/size) {
		c.err = fmt.Errorf("%w: a column is longer than the file", ErrIndex)
		return 0
	}
	return int(v)
}

func (c *columns) take(n int) []byte {
	if c.err == nil && n > len(c.rest) {
		c.err = fmt.Errorf("%w: it ends too early", ErrIndex)
	}
	if c.err != nil {
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func bytesColumn(c *columns, v *[]uint8) {
	n := c.length(len(*v), 1)
	if c.w != nil {
		c.write(*v)
		return
	}
	*v = slices.Clone(c.take(n))
}

func column[T uint32 | uint64](c *columns, v *[]T, size int) {
	n := c.length(len(*v), size)
	if c.w != nil {
		buf := make([]byte, 0, 64<<10)
		for _, e := range *v {
			if size == 4 {
				buf = binary.LittleEndian.AppendUint32(buf, uint32(e))
			} else {
				buf = binary.LittleEndian.AppendUint64(buf, uint64(e))
			}
			if len(buf) >= 64<<10-8 {
				c.write(buf)
				buf = buf[:0]
			}
		}
		c.write(buf)
		return
	}
	raw := c.take(n * size)
	if c.err != nil {
		return
	}
	*v = make([]T, n)
	for i := range *v {
		if size == 4 {
			(*v)[i] = T(binary.LittleEndian.Uint32(raw[4*i:]))
		} else {
			(*v)[i] = T(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	}
}

// names is a map of texts to 0, 1, 2, …: the texts in that order.
func names(c *columns, m *map[string]uint32) {
	list := make([]string, len(*m))
	for s, i := range *m {
		list[i] = s
	}
	ends := make([]uint64, 0, len(list))
	var text []byte
	for _, s := range list {
		text = append(text, s...)
		ends = append(ends, uint64(len(text)))
	}
	column(c, &ends, 8)
	bytesColumn(c, &text)
	if c.w != nil || c.err != nil {
		return
	}
	*m = make(map[string]uint32, len(ends))
	all, from := string(text), uint64(0)
	for i, end := range ends {
		if end < from || end > uint64(len(all)) {
			c.err = fmt.Errorf("%w: names are out of order", ErrIndex)
			return
		}
		(*m)[all[from:end]] = uint32(i)
		from = end
	}
}

// columns writes or reads everything but the rows.
func (x *Index) columns(c *columns) error {
	meta, err := json.Marshal(x.meta)
	if err != nil {
		return err
	}
	bytesColumn(c, &meta)
	if c.w == nil && c.err == nil {
		if err := json.Unmarshal(meta, &x.meta); err != nil {
			return fmt.Errorf("%w: %w", ErrIndex, err)
		}
		if x.meta.Version != formatVersion {
			return fmt.Errorf("%w: version %d, want %d", ErrIndex, x.meta.Version, formatVersion)
		}
	}
	column(c, &x.row, 4)
	column(c, &x.blobAt, 8)
	bytesColumn(c, &x.ids)
	column(c, &x.idAt, 4)
	column(c, &x.byRank, 4)
	price, sold := make([]uint64, len(x.price)), make([]uint64, len(x.sold))
	for i := range x.price {
		price[i], sold[i] = math.Float64bits(x.price[i]), uint64(x.sold[i])
	}
	column(c, &price, 8)
	column(c, &sold, 8)
	if c.w == nil {
		x.price, x.sold = make([]float64, len(price)), make([]int64, len(sold))
		for i, p := range price {
			x.price[i] = math.Float64frombits(p)
		}
		for i, s := range sold {
			x.sold[i] = int64(s)
		}
	}
	column(c, &x.shop, 4)
	names(c, &x.shops)
	bytesColumn(c, &x.service)
	bytesColumn(c, &x.norm)
	names(c, &x.terms)
	column(c, &x.postAt, 8)
	column(c, &x.posts, 4)
	bytesColumn(c, &x.tf)
	return c.err
}

// Open opens an index. Its rows stay in the file, which must not change; what
// is loaded was checked against its digest and its bounds.
func Open(path string) (*Index, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	x, err := load(f)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open index %s: %w", path, err)
	}
	x.file = f
	return x, nil
}

func load(f *os.File) (*Index, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return parse(f, st.Size())
}

func parse(f io.ReaderAt, size int64) (*Index, error) {
	if size < int64(trailerSize+len(magic)) {
		return nil, fmt.Errorf("%w: too short", ErrIndex)
	}
	end := size - int64(trailerSize)
	trailer := make([]byte, trailerSize)
	if _, err := f.ReadAt(trailer, end); err != nil {
		return nil, err
	}
	start, n := binary.LittleEndian.Uint64(trailer), binary.LittleEndian.Uint64(trailer[8:])
	if string(trailer[trailerSize-len(magic):]) != magic || start < uint64(len(magic)) || start > uint64(end) || n != uint64(end)-start {
		return nil, fmt.Errorf("%w: the trailer is damaged", ErrIndex)
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, int64(start)); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], trailer[16:16+sha256.Size]) {
		return nil, fmt.Errorf("%w: the columns are damaged", ErrIndex)
	}
	x := &Index{blobs: io.NewSectionReader(f, int64(len(magic)), int64(start)-int64(len(magic)))}
	c := &columns{rest: raw}
	if err := x.columns(c); err != nil {
		return nil, err
	}
	if len(c.rest) > 0 {
		return nil, fmt.Errorf("%w: there is more than the columns", ErrIndex)
	}
	if err := x.consistent(start - uint64(len(magic))); err != nil {
		return nil, err
	}
	x.rank = make([]uint32, len(x.byRank))
	for i, d := range x.byRank {
		x.rank[d] = uint32(i)
	}
	x.ready()
	return x, nil
}

// permutation reports whether list has every number below n once.
func permutation(list []uint32, n int) bool {
	seen := make([]bool, n)
	for _, d := range list {
		if int(d) >= n || seen[d] {
			return false
		}
		seen[d] = true
	}
	return len(list) == n
}

// consistent checks every bound that queries rely on.
func (x *Index) consistent(blobs uint64) error {
	n, t := len(x.norm), len(x.terms)
	bad := func(what string) error { return fmt.Errorf("%w: %s do not fit together", ErrIndex, what) }
	if len(x.blobAt) != rows*n+1 || len(x.idAt) != n+1 || len(x.price) != n || len(x.sold) != n || len(x.shop) != n || len(x.service) != n {
		return bad("columns")
	}
	if len(x.postAt) != t+1 || len(x.posts) != len(x.tf) || x.meta.Products != n || x.meta.Documents > n || x.meta.Documents < 0 || x.meta.Tokens < 0 {
		return bad("postings")
	}
	if !slices.IsSorted(x.blobAt) || x.blobAt[0] != 0 || x.blobAt[rows*n] != blobs {
		return bad("rows")
	}
	for i := range n {
		if x.blobAt[rows*i+rows]-x.blobAt[rows*i] > rows*8*catalogue.MaxLine {
			return bad("rows")
		}
	}
	if !slices.IsSorted(x.idAt) || x.idAt[0] != 0 || int(x.idAt[n]) != len(x.ids) {
		return bad("ids")
	}
	if !permutation(x.byRank, n) || !permutation(x.row, n) {
		return bad("ids")
	}
	for _, s := range x.shop {
		if int(s) >= len(x.shops) {
			return bad("shops")
		}
	}
	if !slices.IsSorted(x.postAt) || x.postAt[0] != 0 || x.postAt[t] != uint64(len(x.posts)) {
		return bad("postings")
	}
	for i := range t {
		list := x.posts[x.postAt[i]:x.postAt[i+1]]
		for j, d := range list {
			if int(d) >= n || (j > 0 && d <= list[j-1]) {
				return bad("postings")
			}
		}
	}
	return nil
}
