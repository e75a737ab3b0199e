package roles

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// A backup is a directory: blobs/ is a blob folder that all snapshots in it share,
// and each snapshot is a directory named by its time, with data/ and, written last,
// a manifest. A server may be at work: the log is copied before the rows, so that it
// never says what they do not hold, and the bytes after them, so that none is missing.

const (
	backupFormat   = 1
	backupManifest = "manifest.json"
	backupTime     = "20060102T150405.000Z"
	maxManifest    = 64 << 20
)

// backupFile is one file of a snapshot.
type backupFile struct {
	Path   string `json:"path"` // below data/, with slashes
	Mode   uint32 `json:"mode"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// backupDoc is the manifest of a snapshot.
type backupDoc struct {
	Format  int          `json:"format"`
	Version string       `json:"agon"`
	At      time.Time    `json:"at"`
	Blobs   int64        `json:"blobs"`
	Files   []backupFile `json:"files"`
}

// leftOut reports whether a directory below the data directory is a cache, or
// what a process keeps for itself.
func leftOut(rel string) bool {
	switch filepath.Base(rel) {
	case "tmp", "trees", "ridges-trees", "blobs-cache", "journal", "corpus.new":
		return true
	case "blobs": // the server's are copied by content; a validator's are a cache
		return true
	}
	return false
}

// backup adds a snapshot of the data directory to the backup at to.
func backup(ctx context.Context, o kit.Options, to string, now time.Time) (*cli.BackupMade, error) {
	if _, err := os.Stat(filepath.Join(o.Data, cli.MarkerFile)); err != nil {
		return nil, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Field: "data", Message: o.Data + " is not a data directory of agon", Mend: "name it with --data"}
	}
	if in, err := filepath.Rel(o.Data, to); err == nil && !strings.HasPrefix(in, "..") {
		return nil, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "to", Message: "the backup would be part of the data directory", Mend: "choose a directory elsewhere, on another disk"}
	}
	dir := filepath.Join(to, now.UTC().Format(backupTime))
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, fmt.Errorf("make backup: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make backup: %w", err)
	}
	doc := &backupDoc{Format: backupFormat, Version: agon.Version, At: now.UTC()}
	made := &cli.BackupMade{Snapshot: dir}
	if err := backupFiles(ctx, o, doc, data); err != nil {
		return nil, fmt.Errorf("back up %s: %w", o.Data, err)
	}
	shared, err := blobfs.Open(filepath.Join(to, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	if err := backupBlobs(ctx, o, shared, made); err != nil {
		return nil, fmt.Errorf("back up blobs: %w", err)
	}
	doc.Blobs = made.Blobs
	for _, f := range doc.Files {
		made.Files++
		made.Bytes += f.Size
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, err
	}
	return made, writeDurable(filepath.Join(dir, backupManifest), b)
}

// backupFiles copies everything but blobs.
func backupFiles(ctx context.Context, o kit.Options, doc *backupDoc, data string) error {
	add := func(rel string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := copyFile(filepath.Join(o.Data, rel), filepath.Join(data, rel))
		if errors.Is(err, iofs.ErrNotExist) { // it went meanwhile
			return nil
		}
		if err == nil {
			f.Path = filepath.ToSlash(rel)
			doc.Files = append(doc.Files, f)
		}
		return err
	}
	var databases, others []string
	err := filepath.WalkDir(o.Data, func(path string, e iofs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, iofs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(o.Data, path)
		if err != nil || rel == "." {
			return err
		}
		name := e.Name()
		switch {
		case e.IsDir() && (leftOut(rel) || strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case e.IsDir():
			return nil
		case strings.HasPrefix(rel, "log"+string(filepath.Separator)):
			return add(rel)
		case strings.HasSuffix(name, ".db"):
			if rel != "agon.db" || o.Store == "" {
				databases = append(databases, rel)
			}
		case strings.HasSuffix(name, ".db-wal"), strings.HasSuffix(name, ".db-shm"), strings.HasSuffix(name, ".db-commits"), rel == cli.LockFile, strings.HasPrefix(name, ".tmp-"), !e.Type().IsRegular():
			// A copy of a database has its write-ahead log in it, and begins a new count of commits.
		default:
			others = append(others, rel)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if o.Store != "" {
		if err := backupRows(ctx, o, filepath.Join(data, "agon.db")); err != nil {
			return err
		}
		f, err := describe(filepath.Join(data, "agon.db"))
		if err != nil {
			return err
		}
		f.Path = "agon.db"
		doc.Files = append(doc.Files, f)
	}
	// agon.db before the others: it sorts first, and a validator's books may be ahead of it.
	for _, rel := range databases {
		f, err := copyDatabase(ctx, filepath.Join(o.Data, rel), filepath.Join(data, rel))
		if err != nil {
			return fmt.Errorf("copy %s: %w", rel, err)
		}
		f.Path = filepath.ToSlash(rel)
		doc.Files = append(doc.Files, f)
	}
	for _, rel := range others {
		if err := add(rel); err != nil {
			return err
		}
	}
	return nil
}

// backupRows writes the rows of a PostgreSQL database as a file of SQLite.
func backupRows(ctx context.Context, o kit.Options, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	from, err := postgres.Open(ctx, o.Store)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	err = store.Copy(ctx, from, to, func(store.CopiedTable) {})
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.Remove(path + "-commits")
}

// copyDatabase writes a database of SQLite as of one moment, while others use it.
func copyDatabase(ctx context.Context, from, to string) (f backupFile, err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return f, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: from}).EscapedPath()+"?_pragma=busy_timeout(2000)")
	if err != nil {
		return f, err
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO $1`, to)
	var se *sqlitedriver.Error
	held := errors.As(err, &se) && se.Code() == sqlite3.SQLITE_BUSY
	if err = errors.Join(err, db.Close()); held {
		err = copyHeld(ctx, from, to)
	}
	if err != nil {
		return f, err
	}
	if err := errors.Join(os.Chmod(to, 0o600), syncPath(to)); err != nil {
		return f, err
	}
	return describe(to)
}

// heldTries bounds the copies of a database that is written again and again.
const heldTries = 50

// copyHeld copies a database whose owner lets nobody else read it: the ledger's.
// Between two checkpoints its file does not change and its write-ahead log only
// grows, so that both together are what a kill would have left.
func copyHeld(ctx context.Context, from, to string) error {
	type state struct {
		size   int64
		at     time.Time
		header string // of the write-ahead log: its salts change when it begins anew
	}
	look := func() (s state, err error) {
		fi, err := os.Stat(from)
		if err != nil {
			return s, err
		}
		s.size, s.at = fi.Size(), fi.ModTime()
		w, err := os.Open(from + "-wal")
		if errors.Is(err, iofs.ErrNotExist) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		defer w.Close()
		var head [32]byte
		n, err := io.ReadFull(w, head[:])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		s.header = string(head[:n])
		return s, err
	}
	for range heldTries {
		for _, path := range []string{to, to + "-wal", to + "-shm"} {
			if err := os.Remove(path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
				return err
			}
		}
		before, err := look()
		if err != nil {
			return err
		}
		if time.Since(before.at) > tick { // else a second change would have the same time
			_, err = copyFile(from, to)
			if err == nil {
				if _, err = copyFile(from+"-wal", to+"-wal"); errors.Is(err, iofs.ErrNotExist) {
					err = nil
				}
			}
			if err != nil {
				return err
			}
			after, err := look()
			if err != nil {
				return err
			}
			if after == before {
				return settle(ctx, to)
			}
		}
		select {
		case <-time.After(2 * tick):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("its owner writes to it all the time: try again, or stop the server")
}

// tick is more than the time between two times that a file system tells apart.
const tick = 50 * time.Millisecond

// settle brings the write-ahead log of a copy into it and reads every page.
func settle(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	if err != nil {
		return err
	}
	var said string
	if err = db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&said); err == nil && said != "ok" {
		err = fmt.Errorf("the copy is damaged: %s", said)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	for _, end := range []string{"-wal", "-shm"} { // gone with the last connection, as a rule
		if err := os.Remove(path + end); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// backupBlobs copies the blobs that the backup does not hold.
func backupBlobs(ctx context.Context, o kit.Options, to *blobfs.Store, made *cli.BackupMade) error {
	if o.Blobs != "" {
		from, err := openBlobs(ctx, nil, o)
		if err != nil {
			return err
		}
		c, err := blob.Copy(ctx, from, to)
		made.Blobs, made.NewBlobs = c.Blobs, c.Copied
		return err
	}
	// Not opened as a store: a server may own the folder.
	root := filepath.Join(o.Data, "blobs")
	return eachBlob(ctx, root, func(d agon.Digest, path string) error {
		made.Blobs++
		if ok, err := to.Has(ctx, d); ok || err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, iofs.ErrNotExist) {
			made.Blobs--
			return nil
		}
		if err != nil {
			return err
		}
		if agon.Sum(b) != d {
			return fmt.Errorf("blob %s: %w", d, blob.ErrCorrupt)
		}
		made.NewBlobs++
		_, err = to.Put(ctx, b)
		return err
	})
}

// eachBlob calls fn for each file of a blob folder.
func eachBlob(ctx context.Context, root string, fn func(d agon.Digest, path string) error) error {
	files, err := filepath.Glob(filepath.Join(root, "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		d := agon.Digest(agon.DigestPrefix + filepath.Base(filepath.Dir(path)) + filepath.Base(path))
		if d.Validate() != nil {
			continue
		}
		if err := fn(d, path); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a regular file with its mode, durably.
func copyFile(from, to string) (f backupFile, err error) {
	in, err := os.Open(from)
	if err != nil {
		return f, err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return f, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return f, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), in)
	if err = errors.Join(err, out.Chmod(fi.Mode().Perm()), out.Sync(), out.Close()); err != nil {
		return f, err
	}
	return backupFile{Mode: uint32(fi.Mode().Perm()), Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

func describe(path string) (f backupFile, err error) {
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return f, err
	}
	h := sha256.New()
	n, err := io.Copy(h, in)
	return backupFile{Mode: uint32(fi.Mode().Perm()), Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeDurable writes a file that is whole or not there.
func writeDurable(path string, b []byte) error {
	if err := os.WriteFile(path+".part", b, 0o600); err != nil {
		return err
	}
	if err := errors.Join(syncPath(path+".part"), os.Rename(path+".part", path)); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// findSnapshot finds the manifest at from: a snapshot, or a backup, whose newest whole
// snapshot is taken.
func findSnapshot(from string) (string, *backupDoc, error) {
	bad := func(format string, args ...any) (string, *backupDoc, error) {
		return "", nil, &agon.Error{Code: "bad_backup", Status: http.StatusUnprocessableEntity, Field: "from", Message: fmt.Sprintf(format, args...)}
	}
	path := filepath.Join(from, backupManifest)
	if _, err := os.Stat(path); errors.Is(err, iofs.ErrNotExist) {
		all, err := filepath.Glob(filepath.Join(from, "*", backupManifest))
		if err != nil || len(all) == 0 {
			return bad("%s holds no finished snapshot", from)
		}
		sort.Strings(all) // by their times
		path = all[len(all)-1]
	}
	in, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return "", nil, err
	}
	var doc backupDoc
	if err := json.Unmarshal(b, &doc); err != nil || len(b) > maxManifest {
		return bad("%s is not a manifest, or has more than %d bytes", path, maxManifest)
	}
	if doc.Format != backupFormat {
		return bad("the backup has format %d, this agon reads %d", doc.Format, backupFormat)
	}
	for _, f := range doc.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return bad("the manifest names the file %q", f.Path)
		}
	}
	return filepath.Dir(path), &doc, nil
}

// restore writes a snapshot into the data directory, which must not be there yet.
func restore(ctx context.Context, o kit.Options, from string) (*cli.BackupRestored, error) {
	dir, doc, err := findSnapshot(from)
	if err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(o.Data); err == nil && len(entries) > 0 {
		return nil, &agon.Error{
			Code: "data_in_use", Status: http.StatusConflict, Field: "data", Message: o.Data + " is not empty",
			Mend: "name a new directory with --data, or move this one away",
		}
	}
	if err := os.MkdirAll(filepath.Dir(o.Data), 0o700); err != nil {
		return nil, err
	}
	next, err := os.MkdirTemp(filepath.Dir(o.Data), ".restore-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(next) // nothing is there once it has been renamed
	r := &cli.BackupRestored{Snapshot: dir, Data: o.Data, At: doc.At}
	for _, f := range doc.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rel := filepath.FromSlash(f.Path)
		got, err := copyFile(filepath.Join(dir, "data", rel), filepath.Join(next, rel))
		if err != nil {
			return nil, fmt.Errorf("restore %s: %w", f.Path, err)
		}
		if got.SHA256 != f.SHA256 || got.Size != f.Size {
			return nil, &agon.Error{Code: "bad_backup", Status: http.StatusUnprocessableEntity, Field: "from", Message: fmt.Sprintf("file %s of the backup is not what was backed up", f.Path), Mend: "take another snapshot"}
		}
		r.Files++
	}
	blobs, err := blobfs.Open(filepath.Join(next, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	err = eachBlob(ctx, filepath.Join(filepath.Dir(dir), "blobs"), func(d agon.Digest, path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if agon.Sum(b) != d {
			return &agon.Error{Code: "bad_backup", Status: http.StatusUnprocessableEntity, Field: "from", Message: fmt.Sprintf("blob %s of the backup is damaged", d)}
		}
		r.Blobs++
		_, err = blobs.Put(ctx, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("restore blobs: %w", err)
	}
	if r.Blobs < doc.Blobs {
		return nil, &agon.Error{Code: "bad_backup", Status: http.StatusUnprocessableEntity, Field: "from", Message: fmt.Sprintf("the backup has %d blobs, the snapshot had %d", r.Blobs, doc.Blobs)}
	}
	if err := os.Remove(o.Data); err != nil && !errors.Is(err, iofs.ErrNotExist) { // empty
		return nil, err
	}
	if err := os.Rename(next, o.Data); err != nil {
		return nil, err
	}
	return r, syncPath(filepath.Dir(o.Data))
}
