package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
)

// HiddenTask is a task of an arena that is hidden, or was.
type HiddenTask struct {
	Arena      string
	Digest     agon.Digest
	ID         string // what it is called outside: agon.TaskRef.Key
	Name       string // what its operator calls it
	Salt       string // hex
	Commitment agon.Digest
	CreatedAt  time.Time
	RetiredAt  time.Time // zero: it is hidden
}

const hiddenColumns = `arena, digest, id, name, salt, commitment, created_at, retired_at`

func scanHidden(r scanner) (h HiddenTask, err error) {
	var created, retired int64
	err = r.Scan(&h.Arena, &h.Digest, &h.ID, &h.Name, &h.Salt, &h.Commitment, &created, &retired)
	h.CreatedAt = fromMicros(created)
	if retired != 0 {
		h.RetiredAt = fromMicros(retired)
	}
	return h, err
}

// InsertHiddenTask stores a hidden task; ErrConflict if its digest or its id is there.
func (t *Tx) InsertHiddenTask(h HiddenTask) error {
	_, err := t.exec(`INSERT INTO hidden_tasks (arena, digest, id, name, salt, commitment, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		h.Arena, string(h.Digest), h.ID, h.Name, h.Salt, string(h.Commitment), micros(h.CreatedAt))
	return err
}

// HiddenTask returns a task that is hidden, or was, by its digest, or ErrNotFound.
func (t *Tx) HiddenTask(arena string, d agon.Digest) (HiddenTask, error) {
	return one(t, scanHidden, `SELECT `+hiddenColumns+` FROM hidden_tasks WHERE arena = $1 AND digest = $2`, arena, string(d))
}

// HiddenTasks returns the tasks of an arena that are hidden, or were, by id.
func (t *Tx) HiddenTasks(arena string) ([]HiddenTask, error) {
	return many(t, scanHidden, `SELECT `+hiddenColumns+` FROM hidden_tasks WHERE arena = $1 ORDER BY id`, arena)
}

// RetiredTasks returns the tasks of all arenas that were hidden and are no more.
func (t *Tx) RetiredTasks() ([]HiddenTask, error) {
	return many(t, scanHidden, `SELECT `+hiddenColumns+` FROM hidden_tasks WHERE retired_at <> 0`)
}

// PlayedOn returns the submissions of which a validator was given a task.
func (t *Tx) PlayedOn(arena, key string) ([]string, error) {
	quoted, err := json.Marshal(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return many(t, scanString, `SELECT DISTINCT r.submission FROM runs r JOIN attempts a ON a.run = r.id
		WHERE r.arena = $1 AND r.tasks LIKE '%"key":' || $2 || '%' ORDER BY r.submission`, arena, string(quoted))
}

// RetireHiddenTask says that a task is hidden no more; ErrConflict if it is not hidden.
func (t *Tx) RetireHiddenTask(arena string, d agon.Digest, at time.Time) error {
	return t.exec1(`UPDATE hidden_tasks SET retired_at = $1 WHERE arena = $2 AND digest = $3 AND retired_at = 0`, micros(at), arena, string(d))
}

// Exposure is how much was seen of one task.
type Exposure struct {
	Plays       int64 // leases of runs with it
	Miners      int64 // whose submissions were played on it
	First, Last time.Time
}

// Exposures counts what was given out of the tasks of an arena, by digest.
func (t *Tx) Exposures(arena string) (map[agon.Digest]Exposure, error) {
	type row struct {
		tasks, miner       string
		plays, first, last int64
	}
	list, err := many(t, func(r scanner) (x row, err error) {
		err = r.Scan(&x.tasks, &x.miner, &x.plays, &x.first, &x.last)
		return x, err
	}, `SELECT r.tasks, e.miner, count(*), min(a.leased_at), max(a.leased_at)
		FROM runs r JOIN attempts a ON a.run = r.id JOIN submissions e ON e.id = r.submission
		WHERE r.arena = $1 GROUP BY r.tasks, e.miner`, arena)
	if err != nil {
		return nil, err
	}
	out, miners := map[agon.Digest]Exposure{}, map[agon.Digest]map[string]bool{}
	for _, x := range list {
		var refs []agon.TaskRef
		if err := json.Unmarshal([]byte(x.tasks), &refs); err != nil {
			return nil, fmt.Errorf("read the tasks of a run: %w", err)
		}
		first, last := fromMicros(x.first), fromMicros(x.last)
		for _, ref := range refs {
			e := out[ref.Digest]
			if e.Plays == 0 || first.Before(e.First) {
				e.First = first
			}
			if last.After(e.Last) {
				e.Last = last
			}
			if miners[ref.Digest] == nil {
				miners[ref.Digest] = map[string]bool{}
			}
			miners[ref.Digest][x.miner] = true
			e.Plays, e.Miners = e.Plays+x.plays, int64(len(miners[ref.Digest]))
			out[ref.Digest] = e
		}
	}
	return out, nil
}
