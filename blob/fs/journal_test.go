package fs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, text string) agon.Digest {
	t.Helper()
	d, err := s.Put(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func logs(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, journalDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// dies closes what the kernel would close of a process that was killed.
func dies(t *testing.T, s *Store) {
	t.Helper()
	if s.journal.file != nil {
		if err := s.journal.file.f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What was put is there after a crash that took every file that was not
// synced: here they are gone, empty, or cut short.
func TestJournalRecovers(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var all []agon.Digest
	for i := range 30 {
		all = append(all, put(t, s, fmt.Sprintf("blob %d", i)))
	}
	large := bytes.Repeat([]byte("x"), smallBlob+1)
	big, err := s.Put(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range all {
		name := s.path(d)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 1:
			err = os.WriteFile(name, nil, 0o400)
		case 2:
			err = os.WriteFile(name, []byte("bl"), 0o400)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dies(t, s)
	s = openStore(t, dir)
	for i, d := range all {
		if b, err := s.Get(t.Context(), d); err != nil || string(b) != fmt.Sprintf("blob %d", i) {
			t.Errorf("blob %d: %q %v", i, b, err)
		}
	}
	if b, err := s.Get(t.Context(), big); err != nil || !bytes.Equal(b, large) {
		t.Errorf("the large blob: %d bytes, %v", len(b), err)
	}
	if list := logs(t, dir); len(list) != 0 {
		t.Errorf("journals stay: %q", list)
	}
}

// A torn or damaged end is not a blob, and hides nothing before it.
func TestJournalTorn(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"cut in the bytes":  func(b []byte) []byte { return b[:len(b)-3] },
		"cut in the head":   func(b []byte) []byte { return b[:len(b)-len("second")-5] },
		"a byte is another": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"garbage behind":    func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0xff}, 100)...) },
		"zeros behind":      func(b []byte) []byte { return append(b, make([]byte, 4096)...) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir)
			first, second := put(t, s, "first"), put(t, s, "second")
			for _, d := range []agon.Digest{first, second} {
				if err := os.Remove(s.path(d)); err != nil {
					t.Fatal(err)
				}
			}
			dies(t, s)
			list := logs(t, dir)
			if len(list) != 1 {
				t.Fatalf("%q", list)
			}
			b, err := os.ReadFile(list[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list[0], spoil(b), 0o600); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, dir)
			if b, err := s.Get(t.Context(), first); err != nil || string(b) != "first" {
				t.Errorf("%q %v", b, err)
			}
			whole := name == "garbage behind" || name == "zeros behind"
			if _, err := s.Get(t.Context(), second); (err == nil) != whole || err != nil && !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("the last: %v", err)
			}
		})
	}
}

// A full journal goes when its blobs are on the disk; many at once share it.
func TestJournalRetires(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	s.journal.maxCount = 10
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				if _, err := s.Put(t.Context(), fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if list := logs(t, dir); len(list) > 1 {
		t.Errorf("%d journals after 200 blobs of at most 10 a file", len(list))
	}
	n := 0
	if err := s.Each(t.Context(), func(agon.Digest) error { n++; return nil }); err != nil || n != 200 {
		t.Errorf("%d blobs, %v", n, err)
	}
}

// The journal of a process that lives is left alone.
func TestJournalOfTheLiving(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	d := put(t, s, "mine")
	other := openStore(t, dir)
	if list := logs(t, dir); len(list) != 1 {
		t.Fatalf("%q", list)
	}
	put(t, other, "theirs")
	put(t, s, "mine again")
	if err := os.Remove(s.path(d)); err != nil {
		t.Fatal(err)
	}
	dies(t, s)
	dies(t, other)
	if b, err := openStore(t, dir).Get(t.Context(), d); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
}

// A journal that cannot be written fails the Put, and the next begins another.
func TestJournalFails(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	put(t, s, "first")
	dies(t, s) // the descriptor is closed: writes fail
	if _, err := s.Put(t.Context(), []byte("lost")); err == nil {
		t.Fatal("a write to a closed journal succeeds")
	}
	if ok, err := s.Has(t.Context(), agon.Sum([]byte("lost"))); ok || err != nil {
		t.Errorf("what is not durable is visible: %t %v", ok, err)
	}
	d := put(t, s, "second")
	if err := os.Remove(s.path(d)); err != nil {
		t.Fatal(err)
	}
	dies(t, s)
	if b, err := openStore(t, dir).Get(t.Context(), d); err != nil || string(b) != "second" {
		t.Errorf("%q %v", b, err)
	}
}

func FuzzReadJournal(f *testing.F) {
	two := appendRecord(appendRecord(nil, agon.Sum([]byte("a")), []byte("a")), agon.Sum(nil), nil)
	f.Add(two)
	f.Add(two[:len(two)-1])
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		err := readJournal(bytes.NewReader(b), func(d agon.Digest, x []byte) error {
			if agon.Sum(x) != d {
				t.Fatalf("a record is not what its digest says")
			}
			again = appendRecord(again, d, x)
			return nil
		})
		if err != nil || !bytes.HasPrefix(b, again) {
			t.Fatalf("%x becomes %x: %v", b, again, err)
		}
	})
}
