package roles

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ui/cli"
)

// sound fails where the doctor finds something wrong with a data directory.
func sound(t *testing.T, o kit.Options) {
	t.Helper()
	checks := inspect(t.Context(), o)
	if len(checks) < 2 {
		t.Errorf("the doctor says only %+v", checks)
	}
	for _, c := range checks {
		if c.Status != cli.CheckOK {
			t.Errorf("the doctor says %+v", c)
		}
	}
}

// Rows go from SQLite to PostgreSQL and back: twice copies nothing, a copy that
// was stopped goes on, the log goes on over either, and other rows are an error.
func TestCopyRows(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	at := pgtest.Start(t).Database(t)
	o := kit.Options{Data: dir, Log: slog.New(slog.DiscardHandler), Getenv: os.Getenv}
	file := filepath.Join(dir, "agon.db")
	first, err := copyStore(t.Context(), o, file, at)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Verified || first.Copied != first.Rows || first.Rows < 120 || strings.Contains(first.From, "postgres") {
		t.Fatalf("%+v", first)
	}
	again, err := copyStore(t.Context(), o, file, at)
	if err != nil || again.Copied != 0 || again.Rows != first.Rows {
		t.Fatalf("again: %+v, %v", again, err)
	}
	pg := func(fn func(tx *store.Tx) error) {
		t.Helper()
		st, err := postgres.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(st.Write(t.Context(), fn), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	// A server over the new database: what it notes follows what is there, and the log goes on.
	o.Store = at
	sound(t, o)
	pg(func(tx *store.Tx) error {
		_, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: "new", Arena: "a", Digest: agon.Sum([]byte("new")), State: agon.SubmissionQueued, CreatedAt: time.Unix(99, 0)}})
		return err
	})
	d, err := kit.OpenData(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := openStore(t.Context(), d, o, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openHistory(t.Context(), d, st, nil, false, o.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := l.Head()
	if head, err := l.Publish(t.Context()); err != nil || head.N != old.N+1 {
		t.Fatalf("the log went from %d to %d: %v", old.N, head.N, err)
	}
	if err := errors.Join(st.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	sound(t, o)
	if _, err := copyStore(t.Context(), o, file, at); err == nil || !strings.Contains(err.Error(), "not the same ones") {
		t.Errorf("over rows of its own: %v", err)
	}
	// And back, in two goes.
	back := t.TempDir()
	copyTree(t, dir, back)
	for _, name := range []string{"agon.db", "agon.db-wal", "agon.db-commits"} {
		_ = os.Remove(filepath.Join(back, name))
	}
	o.Data, o.Store = back, ""
	for i, want := range []int64{first.Rows + 2, 0} {
		c, err := copyStore(t.Context(), o, at, filepath.Join(back, "agon.db"))
		if err != nil || c.Copied != want || strings.Contains(c.From, "password") {
			t.Fatalf("back %d: %+v, %v; want %d copied", i, c, err, want)
		}
	}
	sound(t, o)
	s, err := sqlite.Open(t.Context(), filepath.Join(back, "agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		e, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: "newest", Arena: "a", Digest: agon.Sum([]byte("newest")), State: agon.SubmissionQueued, CreatedAt: time.Unix(100, 0)}})
		if e.Seq != 62 {
			t.Errorf("the next number is %d, want 62", e.Seq)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestCopyWrongSides(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	o := kit.Options{Data: dir, Log: slog.New(slog.DiscardHandler), Getenv: os.Getenv}
	for _, c := range []struct{ from, to, says string }{
		{filepath.Join(dir, "agon.db"), filepath.Join(t.TempDir(), "blobs"), "one side holds rows"},
		{filepath.Join(dir, "no.db"), filepath.Join(t.TempDir(), "x.db"), "there is no"},
		{filepath.Join(dir, "blobs"), "ftp://x", "neither postgres:// nor s3://"},
		{filepath.Join(dir, "blobs"), "s3://UPPER", "bucket"},
	} {
		if _, err := copyStore(t.Context(), o, c.from, c.to); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.says)
		}
	}
	held, err := kit.OpenData(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := copyStore(t.Context(), o, filepath.Join(dir, "agon.db"), filepath.Join(t.TempDir(), "x.db")); err == nil || !strings.Contains(err.Error(), "another agon uses") {
		t.Errorf("while a server is at work: %v", err)
	}
}

// The drill: a snapshot that was taken while a server wrote is restored, and the
// doctor finds nothing wrong; damage of the backup is found before anything is written.
func TestBackupDrill(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	fill(t, dir)
	o := kit.Options{Data: dir, Log: slog.New(slog.DiscardHandler), Getenv: os.Getenv}
	if err := os.MkdirAll(filepath.Join(dir, "validator", "trees", "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "validator", "trees", "cache", "x"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := kit.OpenData(dir) // a server is at work
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), held.Path("agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := local.Open(t.Context(), held.Path("ledger.db"), local.Config{Preset: local.PresetDemo}) // lets nobody else read
	if err != nil {
		t.Fatal(err)
	}
	enter := func(id string) {
		t.Helper()
		if err := st.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: id, Arena: "a", Digest: agon.Sum([]byte(id)), State: agon.SubmissionQueued, CreatedAt: time.Unix(99, 0)}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	enter("before")
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	made, err := backup(t.Context(), o, to, now)
	if err != nil || made.Blobs != 60 || made.NewBlobs != 60 || made.Files < 5 {
		t.Fatalf("%+v, %v", made, err)
	}
	enter("after")
	second, err := backup(t.Context(), o, to, now.Add(time.Hour))
	if err != nil || second.Blobs != 60 || second.NewBlobs != 0 {
		t.Fatalf("second: %+v, %v", second, err)
	}
	if err := errors.Join(st.Close(), ledger.Close(), held.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := backup(t.Context(), o, filepath.Join(dir, "inside"), now); err == nil {
		t.Error("a backup inside of the data directory was made")
	}
	for from, want := range map[string]bool{made.Snapshot: false, to: true} { // of a backup the newest
		r := o
		r.Data = filepath.Join(t.TempDir(), "data")
		got, err := restore(t.Context(), r, from)
		if err != nil || got.Blobs != 60 {
			t.Fatalf("restore %s: %+v, %v", from, got, err)
		}
		sound(t, r)
		if _, err := os.Stat(filepath.Join(r.Data, "validator", "trees")); err == nil {
			t.Error("a cache was backed up")
		}
		if fi, err := os.Stat(filepath.Join(r.Data, "log.key")); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("the log's key: %v, %v", fi, err)
		}
		again, err := local.Open(t.Context(), filepath.Join(r.Data, "ledger.db"), local.Config{Preset: local.PresetDemo})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		st, err := sqlite.Open(t.Context(), filepath.Join(r.Data, "agon.db"))
		if err != nil {
			t.Fatal(err)
		}
		err = st.Read(t.Context(), func(tx *store.Tx) error {
			if _, err := tx.Entry("before"); err != nil {
				return err
			}
			if _, err := tx.Entry("after"); (err == nil) != want {
				t.Errorf("%s: the later entry: %v", from, err)
			}
			return nil
		})
		if err := errors.Join(err, st.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t.Context(), r, from); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("over a data directory: %v", err)
		}
	}
	for name, harm := range map[string]func(snapshot string) error{
		"agon.db of the backup is not what was backed up": func(s string) error { return flip(filepath.Join(s, "data", "agon.db")) },
		"is damaged": func(string) error {
			all, _ := filepath.Glob(filepath.Join(to, "blobs", "??", "*"))
			return flip(all[0])
		},
	} {
		bad := t.TempDir()
		copyTree(t, to, bad)
		was := to
		to = bad
		if err := harm(filepath.Join(bad, filepath.Base(second.Snapshot))); err != nil {
			t.Fatal(err)
		}
		to = was
		r := o
		r.Data = filepath.Join(t.TempDir(), "data")
		if _, err := restore(t.Context(), r, bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.Data), "*")); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
}

func flip(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 1
	return errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600))
}

func FuzzManifest(f *testing.F) {
	good, _ := json.Marshal(backupDoc{Format: backupFormat, Files: []backupFile{{Path: "a/b", SHA256: "x"}}})
	f.Add(good)
	f.Add([]byte(`{"format":1,"files":[{"path":"../x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, backupManifest), b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, doc, err := findSnapshot(dir)
		if err != nil {
			return
		}
		for _, x := range doc.Files {
			if !filepath.IsLocal(filepath.FromSlash(x.Path)) {
				t.Fatalf("took the path %q", x.Path)
			}
		}
	})
}
