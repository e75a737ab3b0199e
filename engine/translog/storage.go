package translog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Storage keeps the files of a log by name (slashes between folders). Read
// returns an error that wraps fs.ErrNotExist for what is not there. Write
// replaces a file as a whole: a reader sees the old or the new one. Only files
// written with durable set need to outlive a loss of power: the others are made
// again from the store. Safe for concurrent use.
type Storage interface {
	Read(name string) ([]byte, error)
	Write(name string, data []byte, durable bool) error
	// Drop removes a folder of partial tiles that a full one has replaced.
	Drop(name string) error
}

// Dir is a Storage in a directory.
type Dir string

// Read implements Storage.
func (d Dir) Read(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("read %q: %w", name, fs.ErrNotExist)
	}
	return os.ReadFile(filepath.Join(string(d), filepath.FromSlash(name)))
}

// Write implements Storage.
func (d Dir) Write(name string, data []byte, durable bool) (err error) {
	path := filepath.Join(string(d), filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write log: %w", err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if err == nil {
		err = f.Chmod(0o600) // the server publishes it, not the disk
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil || !durable {
		return err
	}
	d2, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d2.Sync(), d2.Close())
}

// Drop implements Storage.
func (d Dir) Drop(name string) error {
	if !fs.ValidPath(name) || !strings.HasSuffix(name, ".p") {
		return fmt.Errorf("drop %q: not a folder of partial tiles", name)
	}
	return os.RemoveAll(filepath.Join(string(d), filepath.FromSlash(name)))
}

// tileHeight is that of C2SP's tlog-tiles: 256 hashes a tile.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	// pathCheckpoint is where the signed head stands.
	pathCheckpoint = "checkpoint"
)

// tilePath is the name of a tile of hashes, or of a bundle of entries (L -1),
// as tlog-tiles has it: tile/LEVEL/N[.p/W], tile/entries/N[.p/W].
func tilePath(t tlog.Tile) string {
	p := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", t.H))
	if rest, ok := strings.CutPrefix(p, "data/"); ok {
		return "tile/entries/" + rest
	}
	return "tile/" + p
}

// tilesOf reads hashes of a tree of size n from its tiles. What it returns is
// as good as the storage: Open checks it against a signed head.
type tilesOf struct {
	read func(name string) ([]byte, error)
	n    int64
	keep map[tlog.Tile][]byte // of one batch; nil: nothing is kept
}

// whole is the tile that holds a stored hash, as wide as it is in this tree.
func (r *tilesOf) whole(index int64) tlog.Tile {
	t := tlog.TileForIndex(tileHeight, index)
	t.W = int(min(r.n>>(tileHeight*t.L)-t.N*tileWidth, tileWidth))
	return t
}

func (r *tilesOf) tile(t tlog.Tile) ([]byte, error) {
	if b, ok := r.keep[t]; ok {
		return b, nil
	}
	b, err := r.read(tilePath(t))
	if errors.Is(err, fs.ErrNotExist) && t.W < tileWidth { // it has become full since
		full := t
		full.W = tileWidth
		if b, err = r.read(tilePath(full)); err == nil && len(b) == tileWidth*tlog.HashSize {
			b = b[:t.W*tlog.HashSize]
		}
	}
	if err != nil {
		return nil, err
	}
	if len(b) != t.W*tlog.HashSize {
		return nil, fmt.Errorf("read log: %s has %d bytes, want %d", tilePath(t), len(b), t.W*tlog.HashSize)
	}
	if r.keep != nil {
		r.keep[t] = b
	}
	return b, nil
}

// ReadHashes implements tlog.HashReader.
func (r *tilesOf) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		t := r.whole(x)
		if t.W <= 0 {
			return nil, fmt.Errorf("read log: hash %d is beyond a tree of %d leaves", x, r.n)
		}
		b, err := r.tile(t)
		if err != nil {
			return nil, err
		}
		if out[i], err = tlog.HashFromTile(t, b, x); err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
	}
	return out, nil
}

// bundle is a piece of the log's entries: each with its length before it, in 16
// bits, high byte first.
func appendEntry(b, entry []byte) []byte {
	b = append(b, byte(len(entry)>>8), byte(len(entry)))
	return append(b, entry...)
}

// splitBundle reads a bundle of want entries.
func splitBundle(b []byte, want int) ([][]byte, error) {
	var out [][]byte
	for len(b) > 0 {
		if len(b) < 2 || len(b)-2 < int(b[0])<<8|int(b[1]) {
			return nil, errors.New("read entries: the bundle ends within an entry")
		}
		n := int(b[0])<<8 | int(b[1])
		out = append(out, b[2:2+n])
		b = b[2+n:]
		if len(out) > tileWidth {
			break
		}
	}
	if len(out) != want {
		return nil, fmt.Errorf("read entries: the bundle has %d entries, want %d", len(out), want)
	}
	return out, nil
}

// entriesTile names the bundle that holds entry i of a tree of size n.
func entriesTile(i, n int64) tlog.Tile {
	t := tlog.Tile{H: tileHeight, L: -1, N: i / tileWidth}
	t.W = int(min(n-t.N*tileWidth, tileWidth))
	return t
}
