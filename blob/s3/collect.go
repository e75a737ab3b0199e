package s3

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// A sweep and puts of the same blob meet like this. The sweep writes a mark for
// the blobs that begin with two digits, lists those, removes the old ones and takes
// the mark away. A Put of bytes that are there renews them if they are not young,
// then looks for the mark. If it renewed before the list, the sweep sees that
// they are young; if after, the mark stood before that and it sees the mark: it
// waits until the mark is gone, and puts again.

const (
	// sweepTime bounds the removals below one mark.
	sweepTime = 2 * time.Minute
	// markTime is when a mark is that of a process which died; longer than sweepTime
	// by more than clocks differ.
	markTime = 2 * sweepTime
	// markPause is the time between two looks at a mark.
	markPause = 200 * time.Millisecond
	// atOnce is how many objects a request of removals names (S3's limit).
	atOnce = 1000
)

var _ blob.Collector = (*Store)(nil)

// unswept reports whether no sweep goes on among the neighbours of d. It waits
// for the end of one, and returns false then.
func (s *Store) unswept(ctx context.Context, d agon.Digest) (bool, error) {
	for first := true; ; first = false {
		i, err := s.c.StatObject(ctx, s.bucket, s.gone(d.Hex()[:2]), minio.StatObjectOptions{})
		if missing(err) || err == nil && s.now().Sub(i.LastModified) > markTime {
			return first, nil
		}
		if err != nil {
			return false, err
		}
		select {
		case <-time.After(markPause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// kept reads an object's name; ok is false for what is not a blob.
func (s *Store) kept(o minio.ObjectInfo) (k blob.Kept, ok bool) {
	h := strings.Replace(strings.TrimPrefix(o.Key, s.prefix), "/", "", 1)
	k = blob.Kept{Digest: agon.Digest(agon.DigestPrefix + h), Bytes: o.Size, At: o.LastModified}
	return k, k.Digest.Validate() == nil && s.key(k.Digest) == o.Key
}

// below lists the blobs that begin with two digits.
func (s *Store) below(ctx context.Context, first string, fn func(blob.Kept) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing
	for o := range s.c.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + first + "/", Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list blobs: %w", o.Err)
		}
		if k, ok := s.kept(o); ok {
			if err := fn(k); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// List implements blob.Collector.
func (s *Store) List(ctx context.Context, fn func(blob.Kept) error) error {
	for i := range 256 {
		if err := s.below(ctx, fmt.Sprintf("%02x", i), fn); err != nil {
			return err
		}
	}
	return nil
}

// Sweep implements blob.Collector.
func (s *Store) Sweep(ctx context.Context, before time.Time, garbage func(blob.Kept) bool, swept func(blob.Kept)) error {
	for i := range 256 {
		first := fmt.Sprintf("%02x", i)
		old := map[agon.Digest]bool{}
		err := s.below(ctx, first, func(k blob.Kept) error {
			if garbage(k) && k.At.Before(before) {
				old[k.Digest] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(old) == 0 {
			continue
		}
		again := func(fn func(blob.Kept)) error {
			return s.below(ctx, first, func(k blob.Kept) error {
				if old[k.Digest] && k.At.Before(before) {
					fn(k)
				}
				return nil
			})
		}
		if err := s.sweep(ctx, first, again, swept); err != nil {
			return fmt.Errorf("sweep blobs: %w", err)
		}
	}
	return nil
}

// sweep removes what look finds, below a mark.
func (s *Store) sweep(ctx context.Context, first string, look func(func(blob.Kept)) error, swept func(blob.Kept)) (err error) {
	mark := s.gone(first)
	if _, err := s.c.PutObject(ctx, s.bucket, mark, bytes.NewReader(nil), 0, minio.PutObjectOptions{}); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	var list []blob.Kept
	err = look(func(k blob.Kept) { list = append(list, k) })
	for err == nil && len(list) > 0 && within.Err() == nil {
		n := min(len(list), atOnce)
		err = s.remove(within, list[:n], swept)
		list = list[n:]
	}
	// What is left for want of time is swept by the next one. A mark that stays, because
	// this process was stopped, ends by itself.
	if rerr := s.c.RemoveObject(context.WithoutCancel(ctx), s.bucket, mark, minio.RemoveObjectOptions{}); err == nil {
		err = rerr
	}
	return err
}

func (s *Store) remove(ctx context.Context, list []blob.Kept, swept func(blob.Kept)) error {
	objects := make(chan minio.ObjectInfo, len(list))
	for _, k := range list {
		objects <- minio.ObjectInfo{Key: s.key(k.Digest)}
	}
	close(objects)
	var err error
	failed := map[string]bool{}
	for e := range s.once.RemoveObjects(ctx, s.bucket, objects, minio.RemoveObjectsOptions{}) {
		failed[e.ObjectName] = true
		err = e.Err
	}
	if failed[""] { // of no object: of all
		return err
	}
	for _, k := range list {
		if !failed[s.key(k.Digest)] {
			swept(k)
		}
	}
	return err
}
