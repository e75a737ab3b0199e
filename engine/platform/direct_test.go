package platform

import (
	"context"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// signed is a store whose reads can be signed; it remembers for how long.
type signed struct {
	blob.Store
	ends time.Duration
}

func (s *signed) Direct(_ context.Context, d agon.Digest, ends time.Duration) (string, error) {
	s.ends = ends
	return "https://bucket.example/" + string(d), nil
}

// A URL that a bucket answers ends with its reader's lease, also with one that ends soon.
// Anybody can read by it.
func TestSignedReadsEndWithTheLease(t *testing.T) {
	f := newFixture(t, 1)
	bucket := &signed{Store: f.cfg.Blobs}
	f.cfg.Blobs = bucket
	f.submit(miner1, "x")
	d := agon.Sum(nil) // everybody may read it
	ends := func(c Caller) time.Duration {
		t.Helper()
		at, err := f.BlobAt(bg, c, d)
		must(t, err)
		if at == "" {
			t.Fatal("no URL")
		}
		return bucket.ends
	}
	if got := ends(Caller{Hotkey: val1}); got != directTime {
		t.Errorf("without a lease it ends after %s", got)
	}
	f.claim(val1)
	until := f.now().Add(f.cfg.Lease)
	for _, left := range []time.Duration{f.cfg.Lease, 7 * time.Second, time.Second} {
		f.clock.add(until.Sub(f.now()) - left)
		if got := ends(Caller{Hotkey: val1}); got != left {
			t.Errorf("%s before the end of its lease it ends after %s", left, got)
		}
	}
	if got := ends(Caller{}); got != directTime {
		t.Errorf("of a reader without a key it ends after %s", got)
	}
}
