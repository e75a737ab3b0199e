// Package gc removes what an arena's server no longer needs: bytes that nothing
// refers to, and evidence of old runs, or what their boxes printed, where its operator keeps
// it for a time only. It moves rows of old runs to the archive.
//
// Bytes are marked by what the store says, generously: every digest that stands in
// any text of the database keeps its blob, and the files of a tree are kept with it.
// What is not marked goes once it has not been put for the grace: a submission's or a
// result's bytes are put before the row that names them. Servers may be at work
// meanwhile, see blob.Collector.
package gc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/archive"
	"github.com/agon-arena/agon/engine/store"
)

const (
	// LeastGrace is the least time that bytes may go unreferenced beside a server: it
	// covers blob.RenewAfter and the longest upload.
	LeastGrace = 2 * time.Hour
	// DefaultGrace is the grace where none is given.
	DefaultGrace = 24 * time.Hour
	// atOnce bounds the runs whose files are released in one transaction.
	atOnce = 200
)

// Config says what is to go. Store, Blobs and Now are needed.
type Config struct {
	Store *store.Store
	Blobs blob.Collector
	Now   time.Time
	// Grace is how long bytes stay that nothing refers to.
	Grace time.Duration
	// Evidence is how long evidence of a run stays after its end, trees and what boxes printed.
	// 0: for ever. That of who sits, of undecided submissions, and of what is being judged again
	// or appealed stays in any case.
	Evidence time.Duration
	// Output is the same for what boxes printed alone (kind.Printed, and bytes that stand beside
	// the evidence). 0: as long as the evidence.
	Output time.Duration
	// Archive is how long events and receipts of a run stay in the database after its end;
	// then they are archived in the blob store. 0: for ever. Those of who sits, of
	// undecided submissions, and of what is being judged again stay in any case.
	Archive time.Duration
	// DropArchive is how long files of the archive stay after the end of all of their runs. 0:
	// for ever. Then the steps of these runs are gone; scores, decisions and money are not.
	DropArchive time.Duration
	// DryRun changes nothing.
	DryRun bool
}

// Report is what was found and removed, or would be.
type Report struct {
	DryRun     bool  `json:"dry_run"`
	Blobs      int64 `json:"blobs"` // before
	Bytes      int64 `json:"bytes"`
	Referenced int64 `json:"referenced"` // blobs that something refers to
	Young      int64 `json:"young"`      // others, put within the grace
	Removed    int64 `json:"removed"`    // the rest
	Freed      int64 `json:"freed_bytes"`
	// EvidenceRuns are the runs whose evidence was released. Its bytes go with the next
	// collection: this one's marks are older.
	EvidenceRuns int64 `json:"evidence_runs"`
	// EvidenceBlobs and EvidenceBytes are what a dry run finds of them that nothing else refers to.
	EvidenceBlobs int64 `json:"evidence_blobs"`
	EvidenceBytes int64 `json:"evidence_bytes"`
	// OutputRuns, OutputBlobs and OutputBytes are the same of what boxes printed.
	OutputRuns  int64 `json:"output_runs"`
	OutputBlobs int64 `json:"output_blobs"`
	OutputBytes int64 `json:"output_bytes"`
	// Archived is what was moved to the archive; nil: not asked for.
	Archived *archive.Report `json:"archived,omitempty"`
	// Dropped is what was forgotten of the archive; nil: not asked for. Its bytes go with the
	// next collection.
	Dropped *archive.Dropped `json:"dropped,omitempty"`
}

// Collect removes what nothing needs.
func Collect(ctx context.Context, c Config) (*Report, error) {
	r := &Report{DryRun: c.DryRun}
	before := c.Now.Add(-c.Grace)
	live, err := mark(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("mark what is needed: %w", err)
	}
	list := classes(c, r)
	if c.DryRun {
		for i := range list {
			if err := list[i].find(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	// garbage counts every blob.
	garbage := func(k blob.Kept) bool {
		r.Blobs++
		r.Bytes += k.Bytes
		for _, x := range list {
			x.count(k)
		}
		switch {
		case live.has(k.Digest):
			r.Referenced++
		case !k.At.Before(before):
			r.Young++
		default:
			return true
		}
		return false
	}
	removed := func(k blob.Kept) { r.Removed++; r.Freed += k.Bytes }
	if c.DryRun {
		err = c.Blobs.List(ctx, func(k blob.Kept) error {
			if garbage(k) {
				removed(k)
			}
			return nil
		})
	} else {
		err = c.Blobs.Sweep(ctx, before, garbage, removed)
	}
	if err != nil {
		return r, fmt.Errorf("collect blobs: %w", err)
	}
	for _, x := range list {
		if err := x.release(ctx, c); err != nil {
			return r, fmt.Errorf("release %s: %w", x.name, err)
		}
	}
	if c.Archive > 0 {
		if r.Archived, err = archive.Move(ctx, archive.Config{Store: c.Store, Blobs: c.Blobs, Now: c.Now, Before: c.Now.Add(-c.Archive), DryRun: c.DryRun}); err != nil {
			return r, fmt.Errorf("archive runs: %w", err)
		}
	}
	if c.DropArchive > 0 {
		if r.Dropped, err = archive.Drop(ctx, archive.Config{Store: c.Store, Now: c.Now, Before: c.Now.Add(-c.DropArchive), DryRun: c.DryRun}); err != nil {
			return r, fmt.Errorf("drop archives: %w", err)
		}
	}
	return r, nil
}

// digests are those that something names.
type digests map[[32]byte]named

type named bool

const (
	whole     named = false // blob_refs has it, and its files where it is a tree
	maybeTree named = true  // its files may stand in the blob alone
)

func (s digests) has(d agon.Digest) bool {
	var k [32]byte
	if _, err := hex.Decode(k[:], []byte(d.Hex())); err != nil {
		return true // not a blob of ours
	}
	_, ok := s[k]
	return ok
}

// mark finds the digests that the store names, and the files of trees among them.
func mark(ctx context.Context, c Config) (digests, error) {
	live := digests{}
	// Trees that blob_refs knows have their files there as well. Others are read.
	if err := c.Store.Read(ctx, func(tx *store.Tx) error {
		return tx.EachRef(func(d agon.Digest) {
			archive.Digests(d.Hex(), func(k [32]byte) { live[k] = whole })
		})
	}); err != nil {
		return nil, err
	}
	add := func(k [32]byte) {
		if _, ok := live[k]; !ok {
			live[k] = maybeTree
		}
	}
	// What an attempt's evidence is, blob_refs says, for as long as it is kept.
	skip := map[string]bool{"attempts.evidence": true, "blob_refs.digest": true, "blob_refs.what": true, "blob_refs.owner": true}
	if err := c.Store.Texts(ctx, skip, func(text string) { archive.Digests(text, add) }); err != nil {
		return nil, err
	}
	if err := markArchives(ctx, c, add); err != nil {
		return nil, err
	}
	var roots []agon.Digest
	for k, is := range live {
		if is == maybeTree {
			roots = append(roots, agon.Digest(agon.DigestPrefix+hex.EncodeToString(k[:])))
		}
	}
	for _, d := range roots {
		m, err := blob.GetManifest(ctx, c.Blobs, d, blob.TreeLimits{})
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		if err != nil {
			continue // not a tree, or no blob: most digests of a database are of something else
		}
		for _, f := range m.Files {
			archive.Digests(f.Digest.Hex(), add)
		}
	}
	return live, nil
}

// markArchives adds what archived rows name: the files of the archive list it.
func markArchives(ctx context.Context, c Config, add func([32]byte)) error {
	var files []store.Archived
	err := c.Store.Read(ctx, func(tx *store.Tx) (err error) {
		files, err = tx.Archives()
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range files {
		b, err := c.Blobs.Get(ctx, a.Marks)
		if err != nil {
			return fmt.Errorf("read the marks of archive %s: %w", a.File, err)
		}
		for ; len(b) >= 32; b = b[32:] {
			add([32]byte(b))
		}
	}
	return nil
}
