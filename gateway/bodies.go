package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// maxWhole bounds a body that ReadBody unpacks, in bytes.
const maxWhole = 128 << 20

// packer compresses bodies. One frame at a time needs one encoder, whatever
// the callers; a frame's bytes depend on the body alone.
var packer = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
})

// keepWhole stores a body that its event holds the beginning of. A failure is
// logged: the receipt's hash still covers the body.
func (g *Gateway) keepWhole(b *Body, whole []byte) {
	if g.cfg.Bodies == nil || !b.Cut || int64(len(whole)) != b.Bytes {
		return
	}
	enc, err := packer()
	if err == nil {
		b.Blob, err = g.cfg.Bodies.Put(context.Background(), enc.EncodeAll(whole, nil))
	}
	if err != nil {
		b.Blob = ""
		g.cfg.Log.Error("keep a body", "bytes", len(whole), "error", err)
	}
}

// pruneEvery is how often bodies whose time is over are looked for.
const pruneEvery = time.Hour

// prune removes bodies whose time is over until ctx ends.
func (g *Gateway) prune(ctx context.Context, bodies blob.Collector) {
	for tick := time.NewTicker(pruneEvery); ; {
		n, bytes, err := blob.Prune(ctx, bodies, g.cfg.Clock().Add(-g.cfg.KeepBodies))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.cfg.Log.Error("old bodies of calls are not removed", "error", err)
		case n > 0:
			g.cfg.Log.Info("old bodies of calls were removed", "bodies", n, "bytes", bytes)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// ReadBody returns the whole body of an event from the store that Config.Bodies
// named, checked against the hash of its receipt.
func ReadBody(ctx context.Context, s blob.Store, b Body, want agon.Digest) ([]byte, error) {
	out := b.Content()
	if b.Cut {
		if b.Blob == "" {
			return nil, errors.New("read body: only its beginning was kept")
		}
		packed, err := s.Get(ctx, b.Blob)
		if err != nil {
			return nil, fmt.Errorf("read body: %w", err)
		}
		dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxWhole), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("read body: %w", err)
		}
		defer dec.Close()
		if out, err = dec.DecodeAll(packed, nil); err != nil {
			return nil, fmt.Errorf("read body: %w", err)
		}
	}
	if agon.Sum(out) != want {
		return nil, errors.New("read body: it does not have the hash of its receipt")
	}
	return out, nil
}
