package platform

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
)

// gate asks the kind whether a submission is played at all, and marks e where
// it is not. The caller holds p.entering until e is stored.
func (p *Platform) gate(ctx context.Context, a agon.Arena, e *store.Entry, files []blob.File) error {
	g, ok := p.cfg.Kinds[a.Kind].(kind.Gater)
	if !ok {
		return nil
	}
	earlier, err := p.earlier(ctx, a.ID, e.Coldkey)
	if err != nil {
		return err
	}
	x, err := g.Gate(&a, blob.FS(files), earlier, func(d agon.Digest) (fs.FS, error) {
		list, err := blob.GetFiles(ctx, p.cfg.Blobs, d, p.submitLimits())
		if err != nil {
			return nil, fmt.Errorf("read submission %s: %w", d, err)
		}
		return blob.FS(list), nil
	})
	if err != nil {
		return fmt.Errorf("gate submission: %w", err)
	}
	if x == nil {
		return nil
	}
	e.State = agon.SubmissionExcluded
	if x.Refused {
		e.State = agon.SubmissionRefused
	}
	e.Findings = append(e.Findings, agon.Finding{Code: x.Code, Field: x.Of, Message: cut(x.Message, maxReason)})
	return nil
}

// earlier are the submissions of an arena, oldest first, but those of one
// coldkey and those that were excluded.
func (p *Platform) earlier(ctx context.Context, arena, coldkey string) ([]agon.Submission, error) {
	var out []agon.Submission
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		before := int64(0)
		for {
			list, err := tx.Entries(store.EntryFilter{Arena: arena, Before: before, Limit: 500})
			if err != nil {
				return err
			}
			for _, e := range list {
				if e.Coldkey != coldkey && e.State != agon.SubmissionExcluded && e.State != agon.SubmissionRefused {
					out = append(out, e.Submission)
				}
				before = e.Seq
			}
			if len(list) < 500 {
				return nil
			}
		}
	})
	slices.Reverse(out)
	return out, err
}

// locks are one lock a name, for names of which there are few.
type locks struct {
	mu sync.Mutex // guards of
	of map[string]*sync.Mutex
}

// hold waits for a name's lock; the caller calls release.
func (l *locks) hold(name string) (release func()) {
	l.mu.Lock()
	m := l.of[name]
	if m == nil {
		if l.of == nil {
			l.of = map[string]*sync.Mutex{}
		}
		m = &sync.Mutex{}
		l.of[name] = m
	}
	l.mu.Unlock()
	m.Lock()
	return m.Unlock
}
