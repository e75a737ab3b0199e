package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

// class is a class of runs' files with a time of its own.
type class struct {
	name   string // store.RefEvidence and so on
	before time.Time
	old    map[agon.Digest]bool // of a dry run
	// runs, blobs and bytes count in the report.
	runs, blobs, bytes *int64
}

// classes are those of which an operator keeps some time's files only, evidence first: it
// takes along what boxes printed.
func classes(c Config, r *Report) (list []*class) {
	if c.Evidence > 0 {
		list = append(list, &class{name: store.RefEvidence, before: c.Now.Add(-c.Evidence), runs: &r.EvidenceRuns, blobs: &r.EvidenceBlobs, bytes: &r.EvidenceBytes})
	}
	if c.Output > 0 {
		list = append(list, &class{name: store.RefOutput, before: c.Now.Add(-c.Output), runs: &r.OutputRuns, blobs: &r.OutputBlobs, bytes: &r.OutputBytes})
	}
	return list
}

// find looks for what would be released, for a dry run.
func (x *class) find(ctx context.Context, c Config) error {
	x.old = map[agon.Digest]bool{}
	err := c.Store.Read(ctx, func(tx *store.Tx) error {
		return tx.EachOldFile(x.name, x.before, func(d agon.Digest) { x.old[d] = true })
	})
	if err != nil {
		return fmt.Errorf("find old %s: %w", x.name, err)
	}
	return nil
}

// count counts a blob of what would be released.
func (x *class) count(k blob.Kept) {
	if x.old[k.Digest] {
		*x.blobs++
		*x.bytes += k.Bytes
	}
}

// release forgets the files of runs that ended long ago. A dry run counts the runs.
func (x *class) release(ctx context.Context, c Config) error {
	if c.DryRun {
		return c.Store.Read(ctx, func(tx *store.Tx) (err error) {
			*x.runs, err = tx.CountOldFiles(x.name, x.before)
			return err
		})
	}
	for after := int64(0); ; {
		var n, last int64
		err := c.Store.Write(ctx, func(tx *store.Tx) (err error) {
			n, last, err = tx.DropOldFiles(x.name, x.before, after, atOnce)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		*x.runs, after = *x.runs+n, last
	}
}
