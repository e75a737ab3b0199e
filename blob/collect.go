package blob

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
)

// Kept is one blob as a Collector lists it.
type Kept struct {
	Digest agon.Digest
	Bytes  int64
	At     time.Time // when it was last put, at most RenewAfter earlier than that
}

// RenewAfter bounds how much older than its last Put a blob may look: putting
// bytes that are there renews their time, a Collector may spare that for so long.
const RenewAfter = time.Hour

// Collector is a Store of which blobs can be listed and removed. Other processes
// may put and read meanwhile.
type Collector interface {
	Store
	// List calls fn for every blob, one at a time.
	List(ctx context.Context, fn func(Kept) error) error
	// Sweep removes the blobs of which garbage says true and that look as if they were
	// last put before the time. garbage hears of every blob, once, as List would tell of it;
	// what is to go is looked at again right before it goes: a Put that returns
	// meanwhile keeps its blob. swept hears of each that is gone. Neither function is
	// called twice at once.
	Sweep(ctx context.Context, before time.Time, garbage func(Kept) bool, swept func(Kept)) error
}

// Copied is what Copy did.
type Copied struct {
	Blobs  int64 `json:"blobs"`  // that the source holds
	Bytes  int64 `json:"bytes"`  // of them
	Copied int64 `json:"copied"` // blobs that the target did not hold
}

// copyAtOnce bounds the blobs that Copy has in memory.
const copyAtOnce = 8

// Copy puts every blob of from that to does not hold. Each is verified by its
// digest on the way. A Copy that was stopped goes on where it was; a second one
// copies nothing.
func Copy(ctx context.Context, from, to Collector) (Copied, error) {
	var out Copied
	there := map[agon.Digest]int64{}
	if err := to.List(ctx, func(k Kept) error { there[k.Digest] = k.Bytes; return nil }); err != nil {
		return out, fmt.Errorf("list the target: %w", err)
	}
	var copied atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(copyAtOnce)
	err := from.List(gctx, func(k Kept) error {
		out.Blobs++
		out.Bytes += k.Bytes
		if n, ok := there[k.Digest]; ok && n == k.Bytes {
			return nil
		}
		g.Go(func() error {
			b, err := from.Get(gctx, k.Digest)
			if err != nil {
				return err
			}
			if _, err := to.Put(gctx, b); err != nil {
				return err
			}
			copied.Add(1)
			return nil
		})
		return gctx.Err()
	})
	if werr := g.Wait(); werr != nil { // it is why the list ended
		err = werr
	}
	out.Copied = copied.Load()
	if err != nil {
		return out, fmt.Errorf("copy blobs: %w", err)
	}
	return out, nil
}

// Prune removes what was not put since a time, and returns how many blobs and bytes that are.
func Prune(ctx context.Context, c Collector, before time.Time) (blobs, bytes int64, err error) {
	err = c.Sweep(ctx, before, func(k Kept) bool { return k.At.Before(before) }, func(k Kept) {
		blobs++
		bytes += k.Bytes
	})
	return blobs, bytes, err
}
