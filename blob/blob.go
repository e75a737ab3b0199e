// Package blob stores bytes by content. A Store is durable: Put returns after
// the bytes are on disk (temp file, fsync, rename, fsync of the directory).
package blob

import (
	"context"
	"errors"
	"time"

	"github.com/agon-arena/agon"
)

// ErrNotFound is returned for a digest that the store does not hold.
var ErrNotFound = errors.New("blob not found")

// ErrAway is returned where the place of blobs does not answer, or has no room. It may
// pass: the same call can be made again.
var ErrAway = errors.New("the place of blobs is away")

// ErrCorrupt is returned when stored bytes no longer match their digest.
var ErrCorrupt = errors.New("blob is corrupt")

// ErrTooLarge is returned for bytes or trees over a limit.
var ErrTooLarge = errors.New("blob is too large")

// Store is content-addressed storage. Safe for concurrent use. Callers may
// retry any method.
type Store interface {
	// Put stores b and returns its digest. Storing the same bytes again is a no-op.
	Put(ctx context.Context, b []byte) (agon.Digest, error)
	// Get returns the bytes of d, verified; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, d agon.Digest) ([]byte, error)
	Has(ctx context.Context, d agon.Digest) (bool, error)
}

// Direct is a Store whose blobs others can read where they lie.
type Direct interface {
	// Direct returns a URL from which whoever has it reads d until the time is over, "" where
	// that is not possible or d is not there. Readers verify what they get.
	Direct(ctx context.Context, d agon.Digest, ends time.Duration) (string, error)
}

// Manifest lists the files of a tree. Its canonical JSON (sorted by path, no
// white space) is stored as a blob whose digest names the tree.
type Manifest struct {
	Files []Entry `json:"files"`
}

// Entry is one file of a tree. Mode is "file", "exec" or "link"; a link's
// Digest is that of its target text.
type Entry struct {
	Path   string      `json:"path"`
	Mode   string      `json:"mode"`
	Size   int64       `json:"size"`
	Digest agon.Digest `json:"digest"`
}
