package fs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/blobtest"
)

func TestCollector(t *testing.T) {
	blobtest.RunCollector(t, func(t *testing.T) blob.Collector { return open(t, t.TempDir()) })
}

// Bytes that are put again look young: a sweep leaves them.
func TestPutRenews(t *testing.T) {
	s := open(t, t.TempDir())
	b := []byte("put twice")
	d, err := s.Put(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(s.path(d), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), old.Add(time.Hour), func(blob.Kept) bool { return true }, func(k blob.Kept) { t.Errorf("%v went", k) }); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), d); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("%q, %v", got, err)
	}
}

// Whoever puts while all is swept keeps what it put: a Put that began after
// the sweep's time is never undone.
func TestSweepMeetsPuts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := time.Unix(1_700_000_000, 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Sweep(t.Context(), old.Add(time.Hour), func(blob.Kept) bool { return true }, func(blob.Kept) {}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range 300 {
		b := []byte{byte(n % 7)}
		d, err := s.Put(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		// A reader may come between the two moves of a blob that was put back: it asks again.
		got, err := s.Get(t.Context(), d)
		for try := 0; err != nil && try < 1000; try++ {
			got, err = s.Get(t.Context(), d)
		}
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("put %d: %q, %v", n, got, err)
		}
		_ = os.Chtimes(s.path(d), old, old) // may be swept from here on
	}
	close(stop)
	wg.Wait()
	for _, name := range []string{tempDir + "/*", "??/" + goneName + "*", sweepName + "*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, name)); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
}

// What a killed sweep had moved away is there again after the next start.
func TestSweepKilled(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := []byte("moved away")
	d, err := s.Put(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	path := s.path(d)
	away := filepath.Join(filepath.Dir(path), goneName+filepath.Base(path))
	mark := filepath.Join(dir, sweepName+"1")
	if err := errors.Join(os.Rename(path, away), os.WriteFile(mark, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.List(t.Context(), func(k blob.Kept) error { t.Errorf("listed %+v", k); return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, dir).Get(t.Context(), d); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the mark of a dead process stays")
	}
}

// Whoever opens the folder beside its owner leaves the owner's half-written files.
func TestOpenBeside(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	half := filepath.Join(dir, tempDir, "put-1")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := s.Put(t.Context(), []byte("whole"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(dir, Options{Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); err != nil {
		t.Error(err)
	}
	if got, err := other.Get(t.Context(), d); err != nil || string(got) != "whole" {
		t.Errorf("%q, %v", got, err)
	}
	if d, err = other.Put(t.Context(), []byte("by the other")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), d); err != nil || string(got) != "by the other" {
		t.Errorf("%q, %v", got, err)
	}
}
