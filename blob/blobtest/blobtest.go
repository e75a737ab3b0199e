// Package blobtest is the conformance suite of blob.Store: every driver runs it.
package blobtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// Run tests stores made by open. max is the largest blob that they take.
func Run(t *testing.T, max int, open func(t *testing.T) blob.Store) {
	ctx := context.Background()
	t.Run("put and get", func(t *testing.T) {
		s := open(t)
		for _, b := range [][]byte{{}, []byte("a"), bytes.Repeat([]byte{0}, max)} {
			d, err := s.Put(ctx, b)
			if err != nil {
				t.Fatalf("put %d bytes: %v", len(b), err)
			}
			if d != agon.Sum(b) {
				t.Fatalf("digest %s, want %s", d, agon.Sum(b))
			}
			got, err := s.Get(ctx, d)
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("get %d bytes: %d bytes, %v", len(b), len(got), err)
			}
			if ok, err := s.Has(ctx, d); err != nil || !ok {
				t.Fatalf("has: %v, %v", ok, err)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		s := open(t)
		d := agon.Sum([]byte("never stored"))
		if _, err := s.Get(ctx, d); !errors.Is(err, blob.ErrNotFound) {
			t.Fatalf("get: %v, want ErrNotFound", err)
		}
		if ok, err := s.Has(ctx, d); err != nil || ok {
			t.Fatalf("has: %v, %v", ok, err)
		}
	})
	t.Run("bad digest", func(t *testing.T) {
		s := open(t)
		for _, d := range []agon.Digest{"", "sha256:", "sha256:../../etc/passwd", "md5:00", agon.Digest("sha256:" + string(bytes.Repeat([]byte("A"), 64)))} {
			if _, err := s.Get(ctx, d); err == nil || errors.Is(err, blob.ErrNotFound) {
				t.Errorf("get %q: %v, want a refusal", d, err)
			}
			if _, err := s.Has(ctx, d); err == nil {
				t.Errorf("has %q: no error", d)
			}
		}
	})
	t.Run("too large", func(t *testing.T) {
		s := open(t)
		b := make([]byte, max+1)
		if _, err := s.Put(ctx, b); !errors.Is(err, blob.ErrTooLarge) {
			t.Fatalf("put: %v, want ErrTooLarge", err)
		}
		if ok, err := s.Has(ctx, agon.Sum(b)); err != nil || ok {
			t.Fatalf("has after refusal: %v, %v", ok, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		s := open(t)
		done, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Put(done, []byte("x")); !errors.Is(err, context.Canceled) {
			t.Fatalf("put: %v", err)
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		s := open(t)
		shared := make([]byte, min(max, 4096))
		if _, err := rand.Read(shared); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				own := append([]byte{byte(i)}, shared[1:]...)
				for _, b := range [][]byte{shared, own} {
					d, err := s.Put(ctx, b)
					if err != nil {
						t.Errorf("put: %v", err)
						return
					}
					if got, err := s.Get(ctx, d); err != nil || !bytes.Equal(got, b) {
						t.Errorf("get: %v", err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// RunCollector tests what a blob.Collector can do besides.
func RunCollector(t *testing.T, open func(t *testing.T) blob.Collector) {
	ctx := context.Background()
	s := open(t)
	var all []agon.Digest
	for i := range 20 {
		d, err := s.Put(ctx, []byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	list := func() map[agon.Digest]blob.Kept {
		t.Helper()
		out := map[agon.Digest]blob.Kept{}
		if err := s.List(ctx, func(k blob.Kept) error { out[k.Digest] = k; return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := list()
	for _, d := range all {
		if k := got[d]; k.Bytes != 1 || k.At.IsZero() {
			t.Fatalf("%s is listed as %+v", d, k)
		}
	}
	if len(got) != len(all) {
		t.Fatalf("%d blobs are listed, want %d", len(got), len(all))
	}
	newest := time.Time{}
	for _, k := range got {
		if k.At.After(newest) {
			newest = k.At
		}
	}
	sweep := func(before time.Time, garbage ...agon.Digest) (gone []agon.Digest) {
		t.Helper()
		want := list()
		err := s.Sweep(ctx, before, func(k blob.Kept) bool {
			if want[k.Digest] != k {
				t.Errorf("asked about %+v, listed as %+v", k, want[k.Digest])
			}
			delete(want, k.Digest)
			return slices.Contains(garbage, k.Digest)
		}, func(k blob.Kept) { gone = append(gone, k.Digest) })
		if err != nil {
			t.Fatal(err)
		}
		if len(want) > 0 {
			t.Errorf("not asked about: %v", want)
		}
		return gone
	}
	if gone := sweep(newest.Add(-time.Hour), all...); len(gone) != 0 {
		t.Fatalf("young blobs went: %v", gone)
	}
	later := newest.Add(time.Minute)
	if gone := sweep(later, all[:3]...); len(gone) != 3 {
		t.Fatalf("swept %v, want 3", gone)
	}
	if gone := sweep(later, all[:3]...); len(gone) != 0 {
		t.Fatalf("swept again: %v", gone)
	}
	for i, d := range all {
		if ok, err := s.Has(ctx, d); err != nil || ok != (i >= 3) {
			t.Errorf("blob %d: has %v, %v", i, ok, err)
		}
	}
	if _, err := s.Put(ctx, []byte{0}); err != nil { // what went can come again
		t.Fatal(err)
	}
	if b, err := s.Get(ctx, all[0]); err != nil || !bytes.Equal(b, []byte{0}) {
		t.Errorf("put again: %v, %v", b, err)
	}
}
