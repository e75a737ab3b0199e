package guard

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the database driver
)

// The frames that are counted are those that SQLite reads: a flipped byte hides
// what stands after it, from SQLite too.
func TestReadWAL(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (x text)"); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := db.Exec("INSERT INTO t VALUES ($1)", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := ReadWAL(path + "-wal")
	if err != nil || whole.Frames < 50 || whole.Beyond != 0 {
		t.Fatal(whole, err)
	}
	b, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) string {
		c := bytes.Clone(b)
		c[at] ^= 1
		p := filepath.Join(dir, "copy-wal")
		if err := os.WriteFile(p, c, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	half, err := ReadWAL(flip(len(b) / 2))
	if err != nil || half.Frames == 0 || half.Frames >= whole.Frames || half.Frames+half.Beyond < whole.Frames-1 {
		t.Errorf("flipped in the middle: %+v of %+v, %v", half, whole, err)
	}
	if _, err := ReadWAL(flip(10)); err == nil {
		t.Error("a damaged header was read")
	}
	if w, err := ReadWAL(filepath.Join(dir, "none")); err != nil || w != (WAL{}) {
		t.Error(w, err)
	}
}

func FuzzReadWAL(f *testing.F) {
	f.Add([]byte{0x37, 0x7f, 0x06, 0x82})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "w")
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = ReadWAL(p)
	})
}
