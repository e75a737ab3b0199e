package translog

import (
	"os"
	"path/filepath"
	"testing"
)

// The key of a log changes as often as it likes: whoever knew one follows, and
// nobody else can name a next one.
func TestSuccession(t *testing.T) {
	dir, src := t.TempDir(), &rows{}
	st := Dir(filepath.Join(dir, "log"))
	src.add(t, 10)
	first := open(t, dir, src)
	old, err := first.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	salt := first.Salt(3)
	was := first.Key()
	for range 2 {
		k := testKey(t, dir)
		file, s, err := k.Succeed()
		if err != nil {
			t.Fatal(err)
		}
		if err := AddKey(st, s); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "log.key"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir, src)
		c, err := l.Publish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l.Key() == was || l.Salt(3) != salt {
			t.Error("the key did not change, or the salts did")
		}
		if _, err := OpenCheckpoint(c.Text, l.Key()); err != nil {
			t.Errorf("the new key signs nothing: %v", err)
		}
		list, err := ReadKeys(st)
		if err != nil || Current(was, list) != l.Key() {
			t.Errorf("%d keys, %v", len(list), err)
		}
		if err := Advance(old, c, l.Consistency); err != nil {
			t.Error(err)
		}
	}
	// A stranger names a key of a stranger's.
	_, forged, err := testKey(t, t.TempDir()).Succeed()
	if err != nil {
		t.Fatal(err)
	}
	forged.Old = was
	if forged.Check() == nil || AddKey(st, forged) != nil {
		t.Error("a forged succession holds, or cannot be written")
	}
	if _, err := ReadKeys(st); err == nil {
		t.Error("a forged succession was read")
	}
}

func FuzzKeys(f *testing.F) {
	_, s, err := testKey(f, f.TempDir()).Succeed()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`[{"old":"` + s.Old + `","new":"` + s.New + `","note":"x"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := ParseKeys(b); err == nil {
			Current(s.Old, list)
		}
	})
}
