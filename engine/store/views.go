package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// What pages show of many rows at once.

// RankedFrom returns a stretch of the submissions of an arena by score; of equal
// ones those of seated come first, in its order, then the others by admission.
// Those without a score come last.
func (t *Tx) RankedFrom(arena string, seated []string, offset, limit int) ([]Entry, error) {
	args, sits := []any{arena, limit, offset}, ""
	for i, id := range seated {
		args = append(args, id)
		sits += fmt.Sprintf(" WHEN $%d THEN %d", len(args), i)
	}
	if sits != "" {
		sits = fmt.Sprintf(" CASE id%s ELSE %d END,", sits, len(seated))
	}
	return many(t, scanEntry, `SELECT `+entryColumns+` FROM submissions WHERE arena = $1
		ORDER BY CASE WHEN score IS NULL THEN 1 ELSE 0 END, score DESC,`+sits+` seq LIMIT $2 OFFSET $3`, args...)
}

// ArenaTotals counts an arena.
type ArenaTotals struct {
	Submissions, Miners int64
	CostMicros          agon.Micros // of counted attempts
}

// Totals sums up the submissions of an arena.
func (t *Tx) Totals(arena string) (ArenaTotals, error) {
	return one(t, func(r scanner) (a ArenaTotals, err error) {
		err = r.Scan(&a.Submissions, &a.Miners, &a.CostMicros)
		return a, err
	}, `SELECT count(*), count(DISTINCT miner), COALESCE(sum(cost_micros), 0) FROM submissions WHERE arena = $1`, arena)
}

// NextMade is when the run that is next in an arena's queue was made; zero: none waits.
func (t *Tx) NextMade(arena string) (time.Time, error) {
	n, err := one(t, scanInt, `SELECT COALESCE((SELECT created_at FROM runs WHERE arena = $1 AND state = 'queued' ORDER BY again DESC, sub_seq, n LIMIT 1), 0)`, arena)
	return fromMicros(n), err
}

// TaskValue is the mean value that a submission reached on a task.
type TaskValue struct {
	Submission, Task string
	Value            float64
}

// TaskValues returns the values of submissions by task.
func (t *Tx) TaskValues(submissions []string) ([]TaskValue, error) {
	if len(submissions) == 0 {
		return nil, nil
	}
	args := values(submissions)
	return many(t, func(r scanner) (v TaskValue, err error) {
		err = r.Scan(&v.Submission, &v.Task, &v.Value)
		return v, err
	}, `SELECT r.submission, s.task, avg(s.value) FROM runs r JOIN scores s ON s.run = r.id
		WHERE r.submission IN (`+holders(len(args))+`) AND substr(r.grp, 1, 7) <> 'canary ' GROUP BY r.submission, s.task ORDER BY r.submission, s.task`, args...)
}

// namesAtOnce bounds the ids of one statement.
const namesAtOnce = 200

// Names returns the names of submissions, without those that are not there.
func (t *Tx) Names(ids []string) (map[string]string, error) {
	out := map[string]string{}
	for part := range slices.Chunk(ids, namesAtOnce) {
		args := values(part)
		_, err := many(t, func(r scanner) (struct{}, error) {
			var id, name string
			err := r.Scan(&id, &name)
			out[id] = name
			return struct{}{}, err
		}, `SELECT id, name FROM submissions WHERE id IN (`+holders(len(args))+`)`, args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Outcome is how often counted attempts of a submission ended in a way.
type Outcome struct {
	Submission, Outcome string
	N                   int64
}

// Outcomes counts how the counted attempts of submissions ended, the commonest first.
func (t *Tx) Outcomes(submissions []string) ([]Outcome, error) {
	if len(submissions) == 0 {
		return nil, nil
	}
	args := values(submissions)
	return many(t, func(r scanner) (o Outcome, err error) {
		err = r.Scan(&o.Submission, &o.Outcome, &o.N)
		return o, err
	}, `SELECT submission, outcome, count(*) FROM attempts WHERE counted = 1 AND submission IN (`+holders(len(args))+`)
		GROUP BY submission, outcome ORDER BY submission, count(*) DESC, outcome`, args...)
}

// values are strings as arguments of a statement.
func values(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// holders is "$1, $2, …" for n values.
func holders(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i + 1))
	}
	return b.String()
}

// TaskStat is how one task of an arena was played.
type TaskStat struct {
	Task         string
	Plays        int64 // scored plays
	Submissions  int64 // that played it
	Mean         float64
	Solved       int64
	Early, Late  float64 // mean value of the older and the newer half of its plays, by submission
	EarlyN       int64
	LateN        int64
	FirstSolver  string // submission, by admission
	FirstSolveAt time.Time
}

// TaskStats returns the tasks that an arena has scored, by key. middle parts
// submissions by Seq into older and newer.
func (t *Tx) TaskStats(arena string, middle int64) ([]TaskStat, error) {
	list, err := many(t, func(r scanner) (s TaskStat, err error) {
		err = r.Scan(&s.Task, &s.Plays, &s.Submissions, &s.Mean, &s.Solved, &s.Early, &s.EarlyN, &s.Late, &s.LateN)
		return s, err
	}, `SELECT s.task, count(*), count(DISTINCT r.submission), avg(s.value), sum(s.solved),
			COALESCE(avg(CASE WHEN r.sub_seq < $2 THEN s.value END), 0), sum(CASE WHEN r.sub_seq < $2 THEN 1 ELSE 0 END),
			COALESCE(avg(CASE WHEN r.sub_seq >= $2 THEN s.value END), 0), sum(CASE WHEN r.sub_seq >= $2 THEN 1 ELSE 0 END)
		FROM runs r JOIN scores s ON s.run = r.id WHERE r.arena = $1 GROUP BY s.task ORDER BY s.task`, arena, middle)
	if err != nil {
		return nil, err
	}
	type first struct {
		task, submission string
		at               int64
	}
	firsts, err := many(t, func(r scanner) (f first, err error) {
		var seq int64
		err = r.Scan(&f.task, &seq, &f.submission, &f.at)
		return f, err
	}, `SELECT x.task, x.seq, e.id, e.created_at FROM
			(SELECT s.task AS task, min(r.sub_seq) AS seq FROM runs r JOIN scores s ON s.run = r.id
				WHERE r.arena = $1 AND s.solved = 1 GROUP BY s.task) x
		JOIN submissions e ON e.seq = x.seq ORDER BY x.task`, arena)
	if err != nil {
		return nil, err
	}
	by := make(map[string]first, len(firsts))
	for _, f := range firsts {
		by[f.task] = f
	}
	for i := range list {
		if f, ok := by[list[i].Task]; ok {
			list[i].FirstSolver, list[i].FirstSolveAt = f.submission, fromMicros(f.at)
		}
	}
	return list, nil
}

// MiddleSeq is the Seq that parts the submissions of an arena into two halves; 0 without any.
func (t *Tx) MiddleSeq(arena string) (int64, error) {
	return one(t, scanInt, `SELECT COALESCE((SELECT seq FROM submissions WHERE arena = $1 ORDER BY seq
		LIMIT 1 OFFSET (SELECT count(*) / 2 FROM submissions WHERE arena = $1)), 0)`, arena)
}

// ValidatorStat is what a validator did in an arena.
type ValidatorStat struct {
	Validator  string
	Attempts   int64
	Live       int64
	Counted    int64
	LateOnes   int64
	Ours       int64 // attempts that ended by a fault of ours
	Own        int64 // of these, by the validator's own
	BoxMS      int64
	CostMicros agon.Micros
	Driver     string
	Version    string     // of its agon, as it says itself
	GPUs       []agon.GPU // of its machine, as it says itself
	SeenAt     time.Time
}

// Hardware names the validator's GPUs, as it says itself: "2 x NVIDIA H100"; "": none.
func (v ValidatorStat) Hardware() string {
	var parts []string
	for rest := v.GPUs; len(rest) > 0; {
		var same, other []agon.GPU
		for _, g := range rest {
			if g.Model == rest[0].Model {
				same = append(same, g)
			} else {
				other = append(other, g)
			}
		}
		parts, rest = append(parts, agon.Driver{GPUs: same}.HardwareClass()), other
	}
	return strings.Join(parts, ", ")
}

// Opinion is the value that a validator's counted results give a task of a submission.
type Opinion struct {
	Validator, Submission, Task string
	Value                       float64
}

// Opinions returns what validators say of the latest submissions of an arena
// whose runs have replicas, newest first; at most limit of them.
func (t *Tx) Opinions(arena string, limit int) ([]Opinion, error) {
	return many(t, func(r scanner) (o Opinion, err error) {
		err = r.Scan(&o.Validator, &o.Submission, &o.Task, &o.Value)
		return o, err
	}, `SELECT a.validator, r.submission, s.task, avg(s.value) FROM runs r
		JOIN attempts a ON a.run = r.id AND a.counted = 1 JOIN scores s ON s.run = r.id
		WHERE r.arena = $1 AND r.submission IN (SELECT id FROM submissions WHERE arena = $1 ORDER BY seq DESC LIMIT 200)
		GROUP BY a.validator, r.submission, s.task ORDER BY max(r.sub_seq) DESC, s.task, a.validator LIMIT $2`, arena, limit)
}

// ValidatorStats returns who plays for an arena, most attempts first.
func (t *Tx) ValidatorStats(arena string) ([]ValidatorStat, error) {
	return many(t, func(r scanner) (v ValidatorStat, err error) {
		var seen int64
		var gpus string
		err = r.Scan(&v.Validator, &v.Attempts, &v.Live, &v.Counted, &v.LateOnes, &v.Ours, &v.Own, &v.BoxMS, &v.CostMicros, &v.Driver, &v.Version, &seen, &gpus)
		v.SeenAt = fromMicros(seen)
		if err == nil && gpus != "" {
			err = json.Unmarshal([]byte(gpus), &v.GPUs)
		}
		return v, err
	}, `SELECT n.validator, COALESCE(x.attempts, 0), COALESCE(x.live, 0), COALESCE(x.counted, 0), COALESCE(x.late, 0),
			COALESCE(x.ours, 0), COALESCE(x.own, 0), COALESCE(x.box_ms, 0), COALESCE(x.cost, 0), n.driver, n.version, n.at, n.gpus
		FROM seen n LEFT JOIN (
			SELECT validator, count(*) AS attempts,
				sum(CASE WHEN state IN ('leased', 'playing', 'judging') THEN 1 ELSE 0 END) AS live,
				sum(counted) AS counted, sum(late) AS late,
				sum(CASE WHEN fault NOT IN ('', 'agent') THEN 1 ELSE 0 END) AS ours,
				sum(CASE WHEN fault = 'validator' THEN 1 ELSE 0 END) AS own,
				sum(box_ms) AS box_ms, sum(cost_micros) AS cost
			FROM attempts WHERE arena = $1 GROUP BY validator) x ON x.validator = n.validator
		WHERE n.arena = $1 ORDER BY 2 DESC, 1`, arena)
}

// EventTypes counts the events of an attempt by type.
func (t *Tx) EventTypes(run string, attempt int) (map[string]int64, error) {
	type kv struct {
		typ string
		n   int64
	}
	list, err := many(t, func(r scanner) (x kv, err error) { err = r.Scan(&x.typ, &x.n); return x, err },
		`SELECT type, count(*) FROM events WHERE run = $1 AND attempt = $2 GROUP BY type`, run, int64(attempt))
	out := make(map[string]int64, len(list))
	for _, x := range list {
		out[x.typ] = x.n
	}
	if err != nil {
		return nil, err
	}
	archived, err := t.archived(run)
	if err != nil || archived == nil {
		return out, err
	}
	// Rows that are not cleared yet, or came late, stand in both.
	rows, err := many(t, scanEvent, `SELECT `+eventColumns+` FROM events WHERE run = $1 AND attempt = $2`, run, int64(attempt))
	if err != nil {
		return nil, err
	}
	clear(out)
	for _, e := range eventsWith(archived, rows, attempt, 0, len(archived.Events)+len(rows)) {
		if e.Attempt == attempt {
			out[e.Type]++
		}
	}
	return out, nil
}
