package store

import (
	"time"

	"github.com/agon-arena/agon"
)

// Lately counts the newest runs of an arena.
type Lately struct {
	Runs   int64 // that were looked at
	Scored int64
	Ours   map[agon.Fault]int64 // that ended failed, by whose fault
	Oldest time.Time            // when the run was queued that has waited longest; zero: none waits
	Cost   agon.Micros          // of their attempts that ended since
}

// LatelyOf counts the newest n runs of an arena, and the money of those of their
// attempts that ended since.
func (t *Tx) LatelyOf(arena string, n int, since time.Time) (Lately, error) {
	l := Lately{Ours: map[agon.Fault]int64{}}
	type group struct {
		state, fault string
		n, oldest    int64
	}
	groups, err := many(t, func(r scanner) (g group, err error) {
		err = r.Scan(&g.state, &g.fault, &g.n, &g.oldest)
		return g, err
	}, `SELECT state, fault, count(*), min(created_at) FROM
		(SELECT state, fault, created_at FROM runs WHERE arena = $1 ORDER BY n DESC LIMIT $2) AS last GROUP BY state, fault`, arena, n)
	if err != nil {
		return l, err
	}
	for _, g := range groups {
		l.Runs += g.n
		switch agon.RunState(g.state) {
		case agon.RunScored:
			l.Scored += g.n
		case agon.RunFailed:
			l.Ours[agon.Fault(g.fault)] += g.n
		case agon.RunQueued:
			if at := fromMicros(g.oldest); l.Oldest.IsZero() || at.Before(l.Oldest) {
				l.Oldest = at
			}
		}
	}
	cost, err := one(t, scanInt, `SELECT COALESCE(sum(a.cost_micros), 0) FROM attempts a
		JOIN (SELECT id FROM runs WHERE arena = $1 ORDER BY n DESC LIMIT $2) AS last ON last.id = a.run WHERE a.ended_at >= $3`, arena, n, micros(since))
	l.Cost = agon.Micros(cost)
	return l, err
}
