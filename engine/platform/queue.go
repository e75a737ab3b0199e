package platform

import (
	"context"
	"slices"
	"time"

	"github.com/agon-arena/agon/engine/store"
)

// QueueRow is a submission that waits for its runs, in the order of the queue.
type QueueRow struct {
	store.Waiting
	Position int // from 1
	// Wait is how long until its runs that stand in the queue have ended, at the
	// pace of the last ones; 0: nobody can tell. More runs may be planned later.
	Wait time.Duration
}

// What a queue is told from.
const (
	queueRows  = 100
	paceOf     = 400           // runs whose ends make the pace
	paceWindow = 2 * time.Hour // ends older than this say nothing of now
	paceLeast  = 3             // ends that a pace takes
)

// Queue tells which submissions of an arena wait, in the order in which they are played.
func (p *Platform) Queue(ctx context.Context, arena string) ([]QueueRow, error) {
	var list []store.Waiting
	var ends []time.Time
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if list, err = tx.InQueue(arena, queueRows); err != nil {
			return err
		}
		ends, err = tx.Ends(arena, paceOf)
		return err
	})
	if err != nil {
		return nil, err
	}
	each := paceFrom(ends, p.cfg.Now())
	var out []QueueRow
	ahead := int64(0)
	for i, w := range list {
		ahead += w.Queued + w.Playing
		out = append(out, QueueRow{Waiting: w, Position: i + 1, Wait: each * time.Duration(ahead)})
	}
	return out, nil
}

// paceFrom is the time between two ends of runs lately; 0: too few to tell.
func paceFrom(ends []time.Time, now time.Time) time.Duration {
	ends = slices.DeleteFunc(slices.Clone(ends), func(t time.Time) bool { return now.Sub(t) > paceWindow || t.After(now) })
	if len(ends) < paceLeast {
		return 0
	}
	slices.SortFunc(ends, time.Time.Compare)
	// From the first of them to the last: what happened before the first is not known,
	// and a pause since the last is one of whoever plays.
	return ends[len(ends)-1].Sub(ends[0]) / time.Duration(len(ends)-1)
}
