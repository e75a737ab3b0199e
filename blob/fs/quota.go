package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
)

// quota bounds the bytes of a cache.
type quota struct {
	limit int64

	mu   sync.Mutex
	held int64 // bytes of all blobs, as far as this process knows; guarded by mu
}

const (
	diskBlock = 4 << 10 // what a file takes is a multiple of it
	quotaPart = 8       // the oldest blobs go until a part of this of the quota is free
)

// onDisk is what a file of n bytes takes.
func onDisk(n int64) int64 { return (n + diskBlock - 1) / diskBlock * diskBlock }

// count takes in what an earlier process left.
func (q *quota) count(s *Store) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.prune(s)
}

// add takes in a new blob of n bytes, and makes room if there is too little.
func (q *quota) add(s *Store, n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held += onDisk(n); q.held <= q.limit {
		return nil
	}
	return q.prune(s)
}

// prune counts anew, since other processes may use the folder, and removes the
// oldest blobs where they are over the limit. A reader that has one open still
// reads it to its end. The caller holds mu.
func (q *quota) prune(s *Store) error {
	type old struct {
		path  string
		bytes int64
		at    time.Time
	}
	var list []old
	q.held = 0
	err := s.each(context.Background(), func(d agon.Digest, e iofs.DirEntry) error {
		fi, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		list = append(list, old{s.path(d), onDisk(fi.Size()), fi.ModTime()})
		q.held += onDisk(fi.Size())
		return nil
	})
	if err != nil || q.held <= q.limit {
		return err
	}
	slices.SortFunc(list, func(a, b old) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.path, b.path))
	})
	for _, x := range list {
		if q.held <= q.limit-q.limit/quotaPart {
			break
		}
		if err := os.Remove(x.path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("make room for blobs: %w", err)
		}
		q.held -= x.bytes
	}
	return nil
}
