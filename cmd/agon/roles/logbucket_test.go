package roles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/blob/s3/s3test"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/kinds/kit"
)

// The log stands in the bucket before it stands in the directory: either may be lost, or be
// away for a while, and the log goes on at the longer of the two.
func TestLogInABucket(t *testing.T) {
	bucket := s3test.Start(t)
	open := func() *s3.Store {
		b, err := s3.Open(t.Context(), bucket.Bucket(t), s3.Options{Getenv: bucket.Getenv, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	bytesAt := open()
	dir := t.TempDir()
	fill(t, dir) // a log in a directory alone
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	d := &kit.Data{Dir: dir}
	notes := 0
	// publish opens the log, writes so many facts and publishes them; it returns the log.
	publish := func(blobs blob.Store, facts int) *translog.Log {
		t.Helper()
		l, err := openHistory(t.Context(), d, st, blobs, false, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		old := l.Head()
		for range facts {
			notes++
			n := store.Note{Type: store.FactWeights, ID: fmt.Sprint("weights-", notes), Body: []byte("{}")}
			if err := st.Write(t.Context(), func(tx *store.Tx) error { return tx.InsertNote(n) }); err != nil {
				t.Fatal(err)
			}
		}
		head, err := l.Publish(t.Context())
		if err != nil || head.N != old.N+int64(facts) || translog.Advance(old, head, l.Consistency) != nil {
			t.Fatalf("%d facts after %d: %d, %v", facts, old.N, head.N, err)
		}
		return l
	}
	// same says that the bucket holds what the directory does, and that it is sound.
	same := func(l *translog.Log) {
		t.Helper()
		if err := l.Audit(t.Context(), func(what string) { t.Error(what) }); err != nil {
			t.Fatal(err)
		}
		files := bytesAt.Files(logFolder)
		n := 0
		err := files.List(t.Context(), "", func(name string) error {
			n++
			far, err := files.Read(t.Context(), name)
			if err != nil {
				return err
			}
			near, err := os.ReadFile(filepath.Join(dir, logFolder, filepath.FromSlash(name)))
			if err != nil || !bytes.Equal(near, far) {
				t.Errorf("%s: %d bytes in the bucket, %d in the directory: %v", name, len(far), len(near), err)
			}
			return nil
		})
		if err != nil || n < 3 {
			t.Fatalf("%d files in the bucket: %v", n, err)
		}
	}

	same(publish(bytesAt, 0)) // what the directory had is in the bucket now
	l := publish(bytesAt, 300)
	same(l) // partial tiles that became full are gone on both sides
	head := l.Head()
	if err := os.RemoveAll(filepath.Join(dir, logFolder)); err != nil {
		t.Fatal(err)
	}
	if l = publish(bytesAt, 0); l.Head().Text != head.Text {
		t.Errorf("after the directory was lost the log has %d leaves, want %d", l.Head().N, head.N)
	}
	same(l)
	publish(nil, 3)           // blobs are in a folder for a while
	same(publish(bytesAt, 1)) // and in the bucket again
	other := open()
	same(publish(bytesAt, 1))
	bytesAt = other // a bucket that is new
	same(publish(bytesAt, 1))

	bucket.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := openHistory(ctx, d, st, bytesAt, false, slog.New(slog.DiscardHandler), nil); err == nil {
		t.Error("a log opened whose bucket is away")
	}
	// A server that has lost the lead waits no longer for a bucket that is away.
	lost, ended := make(chan struct{}), make(chan error)
	cut := &bucketLog{dir: translog.Dir(t.TempDir()), files: bytesAt.Files(logFolder), lost: lost}
	go func() { ended <- cut.Write("checkpoint", []byte("late"), true) }()
	close(lost)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a write of a server that does not lead any more: %v", err)
	}
}

// A corpus goes to a bucket and comes back as it was; a second copy copies nothing, one that
// was stopped goes on, and a file that is another is named.
func TestCorpusInABucket(t *testing.T) {
	bucket := s3test.Start(t)
	at := bucket.Bucket(t)
	o := kit.Options{Getenv: bucket.Getenv, Log: slog.New(slog.DiscardHandler)}
	dir := filepath.Join(t.TempDir(), "corpus")
	rows := bytes.Repeat([]byte("{}\n"), 9<<20) // two parts
	m := corpus.Manifest{Format: "agon-corpus-1", Files: map[string]corpus.FileID{}}
	for name, b := range map[string][]byte{"train/rows.jsonl": rows, "eval/rows.jsonl": nil} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		id, err := fileID(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Files[name] = id
	}
	b, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, corpus.ManifestName), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	to := strings.Replace(at, "?", "/corpora/may?", 1)
	back := filepath.Join(t.TempDir(), "back")
	for _, c := range []struct {
		from, to string
		copied   int64
	}{{dir, to, 3}, {dir, to, 0}, {to, back, 3}, {to, back, 0}} {
		r, err := copyStore(t.Context(), o, c.from, c.to)
		if err != nil || r.Copied != c.copied || !r.Verified || r.Corpus == nil || r.Corpus.Files != 3 {
			t.Fatalf("%s to %s: %+v, %v", c.from, c.to, r, err)
		}
	}
	if err := os.Truncate(filepath.Join(back, "train", "rows.jsonl"), 100); err != nil { // a copy that was stopped
		t.Fatal(err)
	}
	if r, err := copyStore(t.Context(), o, to, back); err != nil || r.Copied != 1 {
		t.Errorf("a copy that was stopped: %+v, %v", r, err)
	}
	for name, id := range m.Files {
		if got, err := fileID(filepath.Join(back, filepath.FromSlash(name))); err != nil || got != id {
			t.Errorf("%s came back as %+v: %v", name, got, err)
		}
	}
	var e *agon.Error
	if err := os.WriteFile(filepath.Join(dir, "eval", "rows.jsonl"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := copyStore(t.Context(), o, dir, to); !errors.As(err, &e) || e.Field != "eval/rows.jsonl" {
		t.Errorf("a corpus with another file: %v", err)
	}
	if _, err := copyStore(t.Context(), o, dir, t.TempDir()); !errors.As(err, &e) || e.Field != "to" {
		t.Errorf("a corpus to a folder: %v", err)
	}
	if r, err := copyStore(t.Context(), o, at, filepath.Join(t.TempDir(), "blobs")); err != nil || r.Blobs == nil {
		t.Errorf("a bucket of blobs: %+v, %v", r, err)
	}
}
