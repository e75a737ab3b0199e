package roles

import (
	"crypto/ed25519"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// A flipped byte of any file of a data directory is named by the doctor, and
// facts that it hides stop the start.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	sound := t.TempDir() // looking at it moves the write-ahead log into the database
	copyTree(t, dir, sound)
	o := kit.Options{Data: sound, Log: slog.New(slog.DiscardHandler)}
	for _, c := range inspect(t.Context(), o) {
		if c.Status != cli.CheckOK {
			t.Fatalf("sound data: %+v", c)
		}
	}
	find := func(glob string) string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(dir, glob))
		if err != nil || len(all) == 0 {
			t.Fatal(glob, err)
		}
		return strings.TrimPrefix(all[0], dir)
	}
	for name, c := range map[string]struct {
		file string
		at   float64 // as a part of its size
		says string  // the name of the check that fails
	}{
		"write-ahead log, in the middle": {find("agon.db-wal"), 0.5, "agon.db"},
		"write-ahead log, at its end":    {find("agon.db-wal"), 0.99, "agon.db"},
		"a blob":                         {find("blobs/[0-9a-f]*/*"), 0.5, "blobs"},
		"entries":                        {find("log/tile/entries/*/*"), 0.5, "log"},
		"the head":                       {find("log/checkpoint"), 0.5, "log"},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			copyTree(t, dir, work)
			path := filepath.Join(work, c.file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[int(float64(len(b)-1)*c.at)] ^= 0x41
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			o := o
			o.Data = work
			var said []string
			for _, x := range inspect(t.Context(), o) {
				if x.Status == cli.CheckFail {
					said = append(said, x.Name)
				}
			}
			if len(said) == 0 || said[0] != c.says {
				t.Errorf("the doctor names %v, want %s", said, c.says)
			}
			if c.says != "agon.db" {
				return
			}
			var e *agon.Error
			if _, err := sqlite.Open(t.Context(), filepath.Join(work, "agon.db")); !asCoded(err, &e) || e.Code != "lost_commits" {
				t.Errorf("a start says %v", err)
			}
			// The operator goes on, and the log says so.
			st, err := sqlite.OpenWith(t.Context(), filepath.Join(work, "agon.db"), sqlite.Options{AcceptLoss: true})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			d := &kit.Data{Dir: work}
			if _, err := openHistory(t.Context(), d, st, nil, false, o.Log, nil); err == nil || !strings.Contains(err.Error(), "lacks") || !strings.Contains(err.Error(), "submission s") {
				t.Errorf("the log does not name what is gone: %v", err)
			}
			l, err := openHistory(t.Context(), d, st, nil, true, o.Log, nil)
			if err != nil {
				t.Fatal(err)
			}
			old := l.Head()
			head, err := l.Publish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if head.N != old.N+1 || translog.Advance(old, head, l.Consistency) != nil {
				t.Errorf("after %d leaves %d", old.N, head.N)
			}
			if b, err := l.Entry(old.N); err != nil || !strings.Contains(string(b), `"loss"`) {
				t.Errorf("%s, %v", b, err)
			}
		})
	}
}

func asCoded(err error, e **agon.Error) bool {
	for err != nil {
		if x, ok := err.(*agon.Error); ok { //nolint:errorlint // joined errors are walked here
			*e = x
			return true
		}
		switch x := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, y := range x.Unwrap() {
				if asCoded(y, e) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// fill makes the data of a server that was killed: what it wrote last stands in
// the write-ahead log.
func fill(t *testing.T, dir string) {
	t.Helper()
	live := t.TempDir()
	d, err := kit.OpenData(live)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	st, err := sqlite.Open(t.Context(), d.Path("agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	blobs, err := blobfs.Open(d.Path("blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := translog.LoadKey(d.Path("log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
	if err != nil {
		t.Fatal(err)
	}
	l, err := translog.Open(t.Context(), translog.Config{Storage: translog.Dir(d.Path("log")), Source: platform.Facts{Store: st}, Key: key, Commits: st.Commits})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if _, err := blobs.Put(t.Context(), []byte(strings.Repeat("x", i+1))); err != nil {
			t.Fatal(err)
		}
		if err := st.Write(t.Context(), func(tx *store.Tx) error {
			id := "s" + strings.Repeat("i", i)
			_, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: id, Arena: "a", Digest: agon.Sum([]byte(id)), State: agon.SubmissionQueued, CreatedAt: time.Unix(int64(i), 0)}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A copy while it lives is what kill -9 leaves; the lock and the index of the
	// write-ahead log belong to the process.
	copyTree(t, live, dir)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if strings.HasSuffix(path, "-shm") || strings.HasSuffix(path, "/lock") || strings.Contains(path, "/journal/") {
			return nil
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		b, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A log whose key was changed goes on, says so itself, and a crash in the middle
// of the change loses neither key.
func TestRotateLogKey(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	o := kit.Options{Data: dir, Log: slog.New(slog.DiscardHandler)}
	s, err := rotateLogKey(o)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	d := &kit.Data{Dir: dir}
	l, err := openHistory(t.Context(), d, st, nil, false, o.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := l.Head()
	head, err := l.Publish(t.Context())
	if err != nil || l.Key() != s.New || head.N != old.N+1 {
		t.Fatalf("%d leaves after %d under %s: %v", head.N, old.N, l.Key(), err)
	}
	if b, err := l.Entry(old.N); err != nil || !strings.Contains(string(b), s.New) {
		t.Errorf("%s, %v", b, err)
	}
	// A next key that the old one never named is forgotten.
	if err := os.WriteFile(d.Path(nextKey), []byte("PRIVATE+KEY+agon.test/log+c2f6cd47+AXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(d.Path("log.key"))
	if err != nil {
		t.Fatal(err)
	}
	_ = finishRotation(d)
	if now, err := os.ReadFile(d.Path("log.key")); err != nil || string(now) != string(key) {
		t.Error("a key that nobody named took over")
	}
}
