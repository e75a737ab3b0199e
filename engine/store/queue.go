package store

import (
	"strings"
	"time"
)

// Waiting is a submission with runs that have not ended.
type Waiting struct {
	Submission, Name string
	Queued           int64 // runs that wait for a validator
	Playing          int64 // runs that are played or judged
}

// InQueue returns the submissions of an arena with runs that have not ended, in
// the order in which validators take them: by admission.
func (t *Tx) InQueue(arena string, limit int) ([]Waiting, error) {
	return many(t, func(r scanner) (w Waiting, err error) {
		err = r.Scan(&w.Submission, &w.Name, &w.Queued, &w.Playing)
		return w, err
	}, `SELECT e.id, e.name, sum(x.queued), sum(x.playing) FROM (
			SELECT submission, sub_seq, 1 AS queued, 0 AS playing FROM runs WHERE arena = $1 AND state = 'queued'
			UNION ALL SELECT r.submission, r.sub_seq, 0, 1 FROM attempts a JOIN runs r ON r.id = a.run WHERE a.arena = $1 AND `+strings.ReplaceAll(held, "state", "a.state")+`
		) x JOIN submissions e ON e.id = x.submission
		GROUP BY e.id, e.name, x.sub_seq ORDER BY x.sub_seq LIMIT $2`, arena, limit)
}

// Ends returns when the newest runs of an arena ended, in no order: of the last n
// that were queued, those that have ended.
func (t *Tx) Ends(arena string, n int) ([]time.Time, error) {
	list, err := many(t, scanInt, `SELECT ended_at FROM (SELECT ended_at FROM runs WHERE arena = $1 ORDER BY n DESC LIMIT $2) AS last WHERE ended_at > 0`, arena, n)
	out := make([]time.Time, len(list))
	for i, v := range list {
		out[i] = fromMicros(v)
	}
	return out, err
}
