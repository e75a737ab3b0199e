package roles

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/kinds/kit"
)

// logFolder is where the log's files stand, in the data directory and in the bucket.
const logFolder = "log"

// bucketTries bounds how long one file of the log waits for the bucket.
const bucketTries = 30 * time.Second

// logStorage is where the log of a data directory has its files: there, and where its blobs
// are in a bucket in the bucket too. Once lost is closed nothing goes there any more: a server
// that was cut off gives its data directory to the next one at once.
func logStorage(ctx context.Context, d *kit.Data, blobs blob.Store, lost <-chan struct{}) (translog.Storage, error) {
	dir := translog.Dir(d.Path(logFolder))
	bucket, ok := blobs.(*s3.Store)
	if !ok {
		return dir, nil
	}
	l := &bucketLog{dir: dir, files: bucket.Files(logFolder), lost: lost}
	ctx, cancel := until(ctx, lost)
	defer cancel()
	if err := l.meet(ctx); err != nil {
		return nil, fmt.Errorf("the log in the bucket: %w", err)
	}
	return l, nil
}

// bucketLog is a log whose files stand in a bucket and, a copy, in a directory. A file is
// in the bucket before it is in the directory: a head that anybody has seen outlives the
// directory's disk. Reads are of the directory where it has the file. Files but the head and
// the keys never change, so that two servers that write the same one write the same bytes.
type bucketLog struct {
	dir   translog.Dir
	files *s3.Files
	lost  <-chan struct{}
}

// within bounds what is done with one file.
func (l *bucketLog) within() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), bucketTries)
	ctx, _ = until(ctx, l.lost) // ends with the other
	return ctx, cancel
}

// until is a context that ends once lost is closed, too; nil: it never is.
func until(ctx context.Context, lost <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Read implements translog.Storage.
func (l *bucketLog) Read(name string) ([]byte, error) {
	b, err := l.dir.Read(name)
	if !errors.Is(err, iofs.ErrNotExist) || !iofs.ValidPath(name) {
		return b, err
	}
	ctx, cancel := l.within()
	defer cancel()
	return l.files.Read(ctx, name)
}

// Write implements translog.Storage.
func (l *bucketLog) Write(name string, data []byte, durable bool) error {
	ctx, cancel := l.within()
	defer cancel()
	if err := l.files.Write(ctx, name, data); err != nil {
		return err
	}
	return l.dir.Write(name, data, durable)
}

// Drop implements translog.Storage.
func (l *bucketLog) Drop(name string) error {
	if err := l.dir.Drop(name); err != nil {
		return err
	}
	ctx, cancel := l.within()
	defer cancel()
	var names []string
	err := l.files.List(ctx, name, func(n string) error { names = append(names, n); return nil })
	if err != nil {
		return err
	}
	return l.files.Remove(ctx, names...)
}

// Names of the two files that change; they are written last.
var logHeads = []string{"keys", "checkpoint"}

// meet makes both sides the same: the one with the longer log gives the other what it lacks. A
// side may be behind because it is new, because it was away (blobs were in a folder for a
// while), or after a crash between the two writes.
func (l *bucketLog) meet(ctx context.Context) error {
	far, err := absent(l.files.Read(ctx, "checkpoint"))
	if err != nil {
		return err
	}
	near, err := absent(l.dir.Read("checkpoint"))
	if err != nil {
		return err
	}
	switch a, b := headSize(far), headSize(near); {
	case a < b:
		return l.up(ctx)
	case a > b:
		return l.down(ctx)
	}
	// The same head, or none: a key may have been rotated while no server ran.
	farKeys, err := absent(l.files.Read(ctx, "keys"))
	if err != nil {
		return err
	}
	nearKeys, err := absent(l.dir.Read("keys"))
	if err != nil {
		return err
	}
	switch {
	case len(nearKeys) > len(farKeys):
		return l.files.Write(ctx, "keys", nearKeys)
	case len(farKeys) > len(nearKeys):
		return l.dir.Write("keys", farKeys, true)
	}
	return nil
}

func absent(b []byte, err error) ([]byte, error) {
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// headSize is the number of leaves that a head names, 0 without one. Whether it is signed
// the log finds out when it opens.
func headSize(head []byte) int64 {
	lines := strings.SplitN(string(head), "\n", 3)
	if len(lines) < 3 {
		return 0
	}
	n, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// up writes to the bucket what the directory has.
func (l *bucketLog) up(ctx context.Context) error {
	have := map[string]bool{}
	if err := l.files.List(ctx, "", func(name string) error { have[name] = true; return nil }); err != nil {
		return err
	}
	err := filepath.WalkDir(string(l.dir), func(path string, e iofs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		name, err := filepath.Rel(string(l.dir), path)
		if name = filepath.ToSlash(name); err != nil || !strings.HasPrefix(name, "tile/") || have[name] {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return l.files.Write(ctx, name, b)
	})
	if err != nil {
		return err
	}
	for _, name := range logHeads {
		b, err := absent(l.dir.Read(name))
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		if err := l.files.Write(ctx, name, b); err != nil {
			return err
		}
	}
	return nil
}

// down writes to the directory what the bucket has.
func (l *bucketLog) down(ctx context.Context) error {
	var names []string
	err := l.files.List(ctx, "tile", func(name string) error {
		if _, err := os.Stat(filepath.Join(string(l.dir), filepath.FromSlash(name))); errors.Is(err, iofs.ErrNotExist) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range append(names, logHeads...) {
		b, err := absent(l.files.Read(ctx, name))
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		if err := l.dir.Write(name, b, name == "checkpoint" || name == "keys"); err != nil {
			return err
		}
	}
	return nil
}
