package archive

import (
	"context"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

const (
	// keptRuns and keptBytes bound what a Reader remembers: a page reads a run in steps.
	keptRuns  = 16
	keptBytes = 64 << 20
)

// Reader reads archived runs from a blob store. It implements store.Archive.
type Reader struct {
	blobs blob.Store

	mu   sync.Mutex
	kept []kept // guarded by mu; the newest last
}

// kept is a run that was read.
type kept struct {
	file  agon.Digest
	part  int
	bytes int
	trail *store.Trail
}

var _ store.Archive = (*Reader)(nil)

// NewReader reads files from blobs.
func NewReader(blobs blob.Store) *Reader { return &Reader{blobs: blobs} }

// Run implements store.Archive.
func (r *Reader) Run(ctx context.Context, file agon.Digest, part int, run string) (*store.Trail, error) {
	if x := r.remembered(file, part); x != nil {
		return x, nil
	}
	b, err := r.blobs.Get(ctx, file)
	if err != nil {
		return nil, err
	}
	x, err := decode(b, part, run)
	if err != nil {
		return nil, err
	}
	r.remember(kept{file: file, part: part, bytes: size(x), trail: x})
	return x, nil
}

func (r *Reader) remembered(file agon.Digest, part int) *store.Trail {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range r.kept {
		if k.file == file && k.part == part {
			r.kept = append(slices.Delete(r.kept, i, i+1), k)
			return k.trail
		}
	}
	return nil
}

func (r *Reader) remember(k kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, k)
	total := 0
	for _, k := range r.kept {
		total += k.bytes
	}
	for len(r.kept) > keptRuns || total > keptBytes && len(r.kept) > 1 {
		total -= r.kept[0].bytes
		r.kept = slices.Delete(r.kept, 0, 1)
	}
}

// size is about how many bytes a run takes.
func size(x *store.Trail) int {
	n := 0
	for _, e := range x.Events {
		n += 128 + len(e.Data)
	}
	for _, c := range x.Receipts {
		n += 128 + len(c.Body)
	}
	return n
}
