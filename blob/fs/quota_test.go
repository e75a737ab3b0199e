package fs

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/blobtest"
)

func openCache(t *testing.T, dir string, quota int64) *Store {
	t.Helper()
	s, err := Open(dir, Options{MaxBytes: 1 << 16, Cache: true, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCacheConformance(t *testing.T) {
	blobtest.Run(t, 1<<16, func(t *testing.T) blob.Store { return openCache(t, t.TempDir(), 1<<30) })
}

// stored lists which of the blobs are there, by index.
func stored(t *testing.T, s *Store, list []agon.Digest) (out []int) {
	t.Helper()
	for i, d := range list {
		switch _, err := s.Get(t.Context(), d); {
		case err == nil:
			out = append(out, i)
		case !errors.Is(err, blob.ErrNotFound):
			t.Errorf("blob %d: %v", i, err)
		}
	}
	return out
}

// A cache over its quota loses the oldest blobs, those of an earlier process too.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	const size = 5000 // two blocks
	s := openCache(t, dir, 8*2*diskBlock)
	var list []agon.Digest
	start := time.Unix(1_700_000_000, 0)
	add := func() {
		t.Helper()
		i := len(list)
		d, err := s.Put(t.Context(), bytes.Repeat([]byte{byte(i)}, size))
		if err != nil {
			t.Fatal(err)
		}
		at := start.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(s.path(d), at, at); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	for range 8 {
		add()
	}
	if got := stored(t, s, list); len(got) != 8 {
		t.Fatalf("within the quota: have %v", got)
	}
	if _, err := s.Put(t.Context(), bytes.Repeat([]byte{0}, size)); err != nil { // is there: takes nothing
		t.Fatal(err)
	}
	if got := stored(t, s, list); len(got) != 8 {
		t.Fatalf("a blob that was there: have %v", got)
	}
	add()
	if got := stored(t, s, list); !slices.Equal(got, []int{2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("over the quota: have %v", got)
	}
	s = openCache(t, dir, 4*2*diskBlock)
	if got := stored(t, s, list); !slices.Equal(got, []int{6, 7, 8}) {
		t.Errorf("opened with a smaller quota: have %v", got)
	}
	add()
	if got := stored(t, s, list); !slices.Equal(got, []int{6, 7, 8, 9}) {
		t.Errorf("room was there: have %v", got)
	}
}

// Writers at once keep the quota, and what is there is whole.
func TestQuotaTogether(t *testing.T) {
	const quota = 16 * diskBlock
	s := openCache(t, t.TempDir(), quota)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 40 {
				b := bytes.Repeat([]byte{byte(w), byte(n)}, 100)
				d, err := s.Put(t.Context(), b)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Get(t.Context(), d); !errors.Is(err, blob.ErrNotFound) && !bytes.Equal(got, b) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	n := int64(0)
	if err := s.Each(t.Context(), func(agon.Digest) error { n++; return nil }); err != nil || n*diskBlock > quota || n == 0 {
		t.Errorf("%d blobs, %v", n, err)
	}
}

// Only bytes that can be had again may be dropped.
func TestQuotaNeedsCache(t *testing.T) {
	for _, o := range []Options{{Quota: 1}, {Quota: -1, Cache: true}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
