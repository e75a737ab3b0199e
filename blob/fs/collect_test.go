package fs

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
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
	if err := s.Sweep(t.Context(), old.Add(time.Hour), func(agon.Digest) bool { return true }, func(k blob.Kept) { t.Errorf("%v went", k) }); err != nil {
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
			if err := s.Sweep(t.Context(), old.Add(time.Hour), func(agon.Digest) bool { return true }, func(blob.Kept) {}); err != nil {
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
	left, _ := filepath.Glob(filepath.Join(dir, tempDir, "*"))
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
