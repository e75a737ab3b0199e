package platform

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
)

// Bounds of comparing deeds.
const (
	maxDeeds      = 20_000           // attempts whose deeds are remembered
	maxSteps      = 2_000            // of an attempt that are compared
	maxDeedsFile  = 16 << 20         // bytes of a file that says what was done
	mostOthers    = 8                // submissions that tell what is common on a task
	othersFrom    = 64               // of so many newest ones they are taken
	deedsPatience = 10 * time.Second // for reading evidence that is not remembered
)

// deeds remembers what agents did, by the evidence that says it.
type deeds struct {
	mu sync.Mutex // guards of
	of map[agon.Digest][]string
}

// read returns the deeds of an attempt. Evidence that cannot be read tells nothing.
func (d *deeds) read(ctx context.Context, k kind.Behaved, blobs blob.Store, evidence agon.Digest) ([]string, error) {
	d.mu.Lock()
	known, ok := d.of[evidence]
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	m, err := blob.GetManifest(ctx, blobs, evidence, blob.TreeLimits{Files: maxRefs})
	if err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	list, err := k.Deeds(func(name string) ([]byte, error) {
		i := slices.IndexFunc(m.Files, func(f blob.Entry) bool { return f.Path == name })
		if i < 0 || m.Files[i].Size > maxDeedsFile {
			return nil, fs.ErrNotExist
		}
		return blobs.Get(ctx, m.Files[i].Digest)
	})
	if err != nil {
		return nil, fmt.Errorf("read what an agent did: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= maxDeeds {
		d.of = map[agon.Digest][]string{} // they are read again
	}
	d.of[evidence] = list[:min(len(list), maxSteps)]
	return d.of[evidence], nil
}

// learnDeeds reads what an agent did while its result comes in, before any
// transaction waits for it. An error costs time later, and nothing else.
func (p *Platform) learnDeeds(ctx context.Context, of string, evidence agon.Digest) {
	if k, ok := p.cfg.Kinds[of].(kind.Behaved); ok {
		if _, err := p.deeds.read(ctx, k, p.cfg.Blobs, evidence); err != nil {
			p.cfg.Log.Debug("deeds are read later", "err", err)
		}
	}
}

// deedsOf are what a submission's agent did in its own plays, by task. Tasks that were
// played more than once have their first play.
func (p *Platform) deedsOf(ctx context.Context, tx *store.Tx, k kind.Behaved, submission string) (map[string][]string, error) {
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, r := range runs {
		if r.State != agon.RunScored || r.Rival != nil || len(r.Tasks) != 1 || out[r.Tasks[0].Key] != nil {
			continue
		}
		attempts, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.Counted && t.Evidence != "" })
		if i < 0 {
			continue
		}
		list, err := p.deeds.read(ctx, k, p.cfg.Blobs, attempts[i].Evidence)
		if err != nil {
			p.cfg.Log.Warn("what an agent did is not compared", "run", r.RunSpec.Run, "err", err)
			continue
		}
		out[r.Tasks[0].Key] = list
	}
	return out, nil
}

// sameDeeds reports whether a challenger did what the champion did, on tasks where
// submissions of other clusters did otherwise.
func (p *Platform) sameDeeds(tx *store.Tx, a agon.Arena, challenger, champion string) (same float64, alike bool, err error) {
	k, ok := p.cfg.Kinds[a.Kind].(kind.Behaved)
	if !ok {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deedsPatience)
	defer cancel()
	mine, err := p.deedsOf(ctx, tx, k, challenger)
	if err != nil || len(mine) == 0 {
		return 0, false, err
	}
	theirs, err := p.deedsOf(ctx, tx, k, champion)
	if err != nil || len(theirs) == 0 {
		return 0, false, err
	}
	others, err := p.othersDeeds(ctx, tx, a, k, challenger, champion)
	if err != nil {
		return 0, false, err
	}
	same, tasks := copycat.Deeds(mine, theirs, others)
	return same, tasks >= copycat.LeastTelling && same >= sameBehaviour, nil
}

// othersDeeds are what the newest submissions did that are of other clusters than
// the two, one for each cluster and coldkey: what they do as well is common.
func (p *Platform) othersDeeds(ctx context.Context, tx *store.Tx, a agon.Arena, k kind.Behaved, two ...string) (out []map[string][]string, err error) {
	seen := map[string]bool{}
	for _, id := range two {
		e, err := tx.Entry(id)
		if err != nil {
			return nil, err
		}
		seen["coldkey "+e.Coldkey] = true
		if c, err := tx.ClusterOf(id); err == nil {
			seen["cluster "+c] = true
		}
	}
	list, err := tx.Entries(store.EntryFilter{Arena: a.ID, Limit: othersFrom})
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		cluster, err := tx.ClusterOf(e.ID)
		if err != nil || e.Solved == nil || *e.Solved < 1 || seen["coldkey "+e.Coldkey] || seen["cluster "+cluster] {
			continue // of the two, counted already, or nothing that it did was good
		}
		seen["coldkey "+e.Coldkey], seen["cluster "+cluster] = true, true
		did, err := p.deedsOf(ctx, tx, k, e.ID)
		if err != nil {
			return nil, err
		}
		if out = append(out, did); len(out) == mostOthers {
			break
		}
	}
	return out, nil
}
