package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
)

// PutArena inserts or replaces an arena.
func (t *Tx) PutArena(a agon.Arena) error {
	b, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode arena: %w", err)
	}
	t.arenasMove()
	_, err = t.exec(`INSERT INTO arenas (id, body, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET body = excluded.body`, a.ID, string(b), micros(a.CreatedAt))
	return err
}

func (t *Tx) scanArena(r scanner) (a agon.Arena, err error) {
	var body string
	if err := r.Scan(&body); err != nil {
		return a, err
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		return a, fmt.Errorf("decode arena: %w", err)
	}
	return a, nil
}

// Arena returns one arena, or ErrNotFound. What it points to is shared: only
// its list of tasks may be changed.
func (t *Tx) Arena(id string) (agon.Arena, error) {
	list, err := t.Arenas()
	if err != nil {
		return agon.Arena{}, err
	}
	i := slices.IndexFunc(list, func(a agon.Arena) bool { return a.ID == id })
	if i < 0 {
		return agon.Arena{}, ErrNotFound
	}
	a := list[i]
	a.Tasks = slices.Clone(a.Tasks)
	return a, nil
}

// Arenas returns all arenas by creation. The list is shared: nobody may change
// it, nor what it points to.
func (t *Tx) Arenas() ([]agon.Arena, error) {
	if list, ok := t.s.arenas.get(t.arenasAt); ok && !t.arenasMoved {
		return list, nil
	}
	list, err := many(t, t.scanArena, `SELECT body FROM arenas ORDER BY created_at, id`)
	if err == nil && !t.arenasMoved {
		t.s.arenas.put(t.arenasAt, list)
	}
	return list, err
}

// Arenas is Tx.Arenas in a transaction of its own, if it needs one.
func (s *Store) Arenas(ctx context.Context) (list []agon.Arena, err error) {
	if list, ok := s.arenas.get(s.arenas.now()); ok {
		return list, nil
	}
	err = s.Read(ctx, func(tx *Tx) (err error) {
		list, err = tx.Arenas()
		return err
	})
	return list, err
}

// PutPolicy stores a policy under its digest.
func (t *Tx) PutPolicy(d agon.Digest, p agon.Policy) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode policy: %w", err)
	}
	err = t.put(`INSERT INTO policies (digest, body) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING`, string(d), string(b))
	return err
}

// Entry is a submission with its result.
type Entry struct {
	agon.Submission
	Score      *float64 // null while any task lacks a result
	Solved     *int
	Total      *int
	CostMicros agon.Micros
	Findings   []agon.Finding
	Structure  string // what its files do (kind.Copier); empty: not known
}

const entryColumns = `seq, id, arena, miner, coldkey, netuid, name, digest, licence, state, scripted, created_at,
	score, solved, total, cost_micros, findings, structure, period, beacon_rule, beacon_block, beacon`

// seatedColumns are entryColumns where decisions have columns of the same names.
const seatedColumns = `s.seq, s.id, s.arena, s.miner, s.coldkey, s.netuid, s.name, s.digest, s.licence, s.state, s.scripted, s.created_at,
	s.score, s.solved, s.total, s.cost_micros, s.findings, s.structure, s.period, s.beacon_rule, s.beacon_block, s.beacon`

func scanEntry(r scanner) (Entry, error) { return scanEntryAnd(r) }

// scanEntryAnd scans entryColumns and what a query selects after them.
func scanEntryAnd(r scanner, more ...any) (e Entry, err error) {
	var scripted, created, block int64
	var findings string
	var b agon.Beacon
	if err := r.Scan(append([]any{
		&e.Seq, &e.ID, &e.Arena, &e.Miner, &e.Coldkey, &e.Netuid, &e.Name, &e.Digest, &e.Licence,
		&e.State, &scripted, &created, &e.Score, &e.Solved, &e.Total, &e.CostMicros, &findings, &e.Structure,
		&b.Period, &b.Rule, &block, &b.Hash,
	}, more...)...); err != nil {
		return e, err
	}
	e.Scripted, e.CreatedAt = scripted != 0, fromMicros(created)
	if b.Block = uint64(block); b.Rule != "" {
		e.Beacon = &b
	}
	if err := json.Unmarshal([]byte(findings), &e.Findings); err != nil {
		return e, fmt.Errorf("decode findings: %w", err)
	}
	return e, nil
}

// InsertEntry admits a submission and returns it with its Seq. ErrConflict if
// the arena holds the same digest.
func (t *Tx) InsertEntry(e Entry) (Entry, error) {
	f, err := findingsText(e.Findings)
	if err != nil {
		return e, err
	}
	b := agon.Beacon{Period: -1}
	if e.Beacon != nil {
		b = *e.Beacon
	}
	n, err := t.exec(`INSERT INTO submissions
		(id, arena, miner, coldkey, netuid, name, digest, licence, state, scripted, created_at, findings, structure, fact, period, beacon_rule, beacon_block, beacon)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		e.ID, e.Arena, e.Miner, e.Coldkey, int64(e.Netuid), e.Name, string(e.Digest), e.Licence, string(e.State),
		bit(e.Scripted), micros(e.CreatedAt), f, e.Structure, t.fact(FactSubmission, e.ID), b.Period, b.Rule, int64(b.Block), b.Hash)
	if err != nil {
		return e, err
	}
	if n != 1 {
		return e, ErrConflict
	}
	e.Seq, err = one(t, scanInt, `SELECT seq FROM submissions WHERE id = $1`, e.ID)
	return e, err
}

// Answered notes whether a script answered a submission's plays at a validator
// in a model's place, and marks the submission by what most validators saw:
// one of them cannot mark it against the others.
func (t *Tx) Answered(submission, validator string, script bool) error {
	n, err := t.exec(`INSERT INTO answers (submission, validator, script) VALUES ($1, $2, $3)
		ON CONFLICT (submission, validator) DO UPDATE SET script = excluded.script WHERE answers.script < excluded.script`, submission, validator, bit(script))
	if err != nil || n == 0 {
		return err // nothing new
	}
	return t.exec1(`UPDATE submissions SET scripted = CASE WHEN (SELECT sum(2 * script - 1) FROM answers WHERE submission = $1) > 0 THEN 1 ELSE 0 END WHERE id = $1`, submission)
}

func findingsText(f []agon.Finding) (string, error) {
	if f == nil {
		f = []agon.Finding{}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encode findings: %w", err)
	}
	return string(b), nil
}

// Entry returns one submission, or ErrNotFound.
func (t *Tx) Entry(id string) (Entry, error) {
	return one(t, scanEntry, `SELECT `+entryColumns+` FROM submissions WHERE id = $1`, id)
}

// EntryByDigest returns the submission of these bytes, or ErrNotFound.
func (t *Tx) EntryByDigest(arena string, d agon.Digest) (Entry, error) {
	return one(t, scanEntry, `SELECT `+entryColumns+` FROM submissions WHERE arena = $1 AND digest = $2`, arena, string(d))
}

// EntryByStructure returns the first submission whose files do the same, or ErrNotFound.
func (t *Tx) EntryByStructure(arena, structure string) (Entry, error) {
	return one(t, scanEntry, `SELECT `+entryColumns+` FROM submissions
		WHERE arena = $1 AND structure = $2 AND structure <> '' ORDER BY seq LIMIT 1`, arena, structure)
}

// EntryFilter selects submissions; empty fields select all.
type EntryFilter struct {
	Arena, Miner string
	Before       int64 // Seq below this; 0: from the newest
	Limit        int
}

// Entries returns submissions, newest first.
func (t *Tx) Entries(f EntryFilter) ([]Entry, error) {
	q, args := `SELECT `+entryColumns+` FROM submissions WHERE 1 = 1`, []any(nil)
	add := func(cond string, v any) {
		args = append(args, v)
		q += fmt.Sprintf(" AND %s $%d", cond, len(args))
	}
	if f.Arena != "" {
		add("arena =", f.Arena)
	}
	if f.Miner != "" {
		add("miner =", f.Miner)
	}
	if f.Before > 0 {
		add("seq <", f.Before)
	}
	args = append(args, f.Limit)
	return many(t, scanEntry, q+fmt.Sprintf(" ORDER BY seq DESC LIMIT $%d", len(args)), args...)
}

// TopScore is the best score of a submission of an arena that was decided; 0 where none was.
func (t *Tx) TopScore(arena string) (float64, error) {
	return one(t, func(r scanner) (v float64, err error) { err = r.Scan(&v); return v, err },
		`SELECT COALESCE(max(score), 0.0) FROM submissions WHERE arena = $1 AND state = 'scored'`, arena)
}

// LastEntryOf is when a hotkey entered last; the zero time if it never did.
func (t *Tx) LastEntryOf(arena, miner string) (time.Time, error) {
	n, err := one(t, scanInt, `SELECT COALESCE(max(s.created_at), 0) FROM submissions s WHERE s.arena = $1 AND s.miner = $2`+notCredited, arena, miner)
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return fromMicros(n), nil
}

// CountColdkey counts what a coldkey entered since a time.
func (t *Tx) CountColdkey(arena, coldkey string, since time.Time) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM submissions s WHERE s.arena = $1 AND s.coldkey = $2 AND s.created_at > $3`+notCredited,
		arena, coldkey, micros(since))
}

// CountChallenges counts what a coldkey entered up to seq that was not thrown
// out by its replays: how often it has tried for the seat.
func (t *Tx) CountChallenges(arena, coldkey string, seq int64) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM submissions s WHERE s.arena = $1 AND s.coldkey = $2 AND s.seq <= $3
		AND (s.solved IS NULL OR s.solved > 0)`+notCredited, arena, coldkey, seq)
}

// FirstUndecided returns the oldest submission of an arena that is queued or
// playing and waits for no vetting, or ErrNotFound.
func (t *Tx) FirstUndecided(arena string) (Entry, error) {
	return one(t, scanEntry, `SELECT `+entryColumns+` FROM submissions
		WHERE arena = $1 AND state IN ('queued', 'playing') AND NOT EXISTS (SELECT 1 FROM vettings v WHERE v.submission = submissions.id AND v.state <> 'done') ORDER BY seq LIMIT 1`, arena)
}

// SetEntryState moves a submission.
func (t *Tx) SetEntryState(id string, s agon.SubmissionState, f []agon.Finding) error {
	text, err := findingsText(f)
	if err != nil {
		return err
	}
	return t.put1(`UPDATE submissions SET state = $1, findings = $2 WHERE id = $3`, string(s), text, id)
}

// StartEntry moves a queued submission to playing; others stay as they are.
func (t *Tx) StartEntry(id string) error {
	_, err := t.exec(`UPDATE submissions SET state = 'playing' WHERE id = $1 AND state = 'queued'`, id)
	return err
}

// SetEntryResult stores the aggregate of a complete submission, or takes it back with a nil score.
func (t *Tx) SetEntryResult(id string, score *float64, solved, total *int) error {
	return t.put1(`UPDATE submissions SET score = $1, solved = $2, total = $3 WHERE id = $4`, score, solved, total, id)
}

// AddCost adds what a counted attempt spent.
func (t *Tx) AddCost(id string, m agon.Micros) error {
	return t.put1(`UPDATE submissions SET cost_micros = cost_micros + $1 WHERE id = $2`, int64(m), id)
}

// Seat returns the incumbent of an arena, the first where there are several;
// nil if nobody sits.
func (t *Tx) Seat(arena string) (*agon.Seat, error) {
	s, err := one(t, func(r scanner) (s agon.Seat, err error) {
		var since int64
		err = r.Scan(&s.Arena, &s.Submission, &s.Miner, &s.Score, &since)
		s.Since = fromMicros(since)
		return s, err
	}, `SELECT arena, submission, miner, score, since FROM seats WHERE arena = $1`, arena)
	if err == ErrNotFound { //nolint:errorlint // one returns the sentinel itself
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// PutSeat makes s the incumbent.
func (t *Tx) PutSeat(s agon.Seat) error {
	_, err := t.exec(`INSERT INTO seats (arena, submission, miner, score, since) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (arena) DO UPDATE SET submission = excluded.submission, miner = excluded.miner,
		score = excluded.score, since = excluded.since`, s.Arena, s.Submission, s.Miner, s.Score, micros(s.Since))
	return err
}

// Seated returns the submissions of an arena that ever took a seat, in that
// order, each with the time it did. One that was banned since never sat.
func (t *Tx) Seated(arena string) ([]Seated, error) {
	return many(t, scanSeated, seatedOf+` ORDER BY d.n`, arena)
}

// LastSeated returns the last of Seated that no script answered, or, if a script
// answered all, the last; none where nobody took a seat.
func (t *Tx) LastSeated(arena string) ([]Seated, error) {
	for _, which := range []string{` AND s.scripted = 0`, ``} {
		if list, err := many(t, scanSeated, seatedOf+which+` ORDER BY d.n DESC LIMIT 1`, arena); err != nil || len(list) > 0 {
			return list, err
		}
	}
	return nil, nil
}

const seatedOf = `SELECT ` + seatedColumns + `, d.at FROM decisions d JOIN submissions s ON s.id = d.challenger
	WHERE d.arena = $1 AND d.outcome = 'took_seat' AND s.state <> 'excluded'`

func scanSeated(r scanner) (s Seated, err error) {
	var at int64
	s.Entry, err = scanEntryAnd(r, &at)
	s.At = fromMicros(at)
	return s, err
}

// Seated is a submission that took a seat.
type Seated struct {
	Entry
	At time.Time
}

// InsertDecision stores a decision; ErrConflict if the challenger has one.
func (t *Tx) InsertDecision(d agon.Decision) error {
	n, err := json.Marshal(d.Numbers)
	if err != nil {
		return fmt.Errorf("encode decision: %w", err)
	}
	_, err = t.exec(`INSERT INTO decisions (arena, challenger, incumbent, score, bar, outcome, rule, numbers, at, fact)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.Arena, d.Challenger, d.Incumbent, d.Score, d.Bar, d.Outcome, d.Rule, string(n), micros(d.At), t.fact(FactDecision, d.Challenger))
	return err
}

const decisionColumns = `arena, challenger, incumbent, score, bar, outcome, rule, numbers, at`

func scanDecision(r scanner) (d agon.Decision, err error) {
	var bar sql.NullFloat64
	var numbers string
	var at int64
	if err := r.Scan(&d.Arena, &d.Challenger, &d.Incumbent, &d.Score, &bar, &d.Outcome, &d.Rule, &numbers, &at); err != nil {
		return d, err
	}
	if bar.Valid {
		d.Bar = &bar.Float64
	}
	d.At = fromMicros(at)
	if err := json.Unmarshal([]byte(numbers), &d.Numbers); err != nil {
		return d, fmt.Errorf("decode decision: %w", err)
	}
	return d, nil
}

// Decision returns the decision on a submission, or ErrNotFound.
func (t *Tx) Decision(challenger string) (agon.Decision, error) {
	return one(t, scanDecision, `SELECT `+decisionColumns+` FROM decisions WHERE challenger = $1`, challenger)
}

// Decisions returns the last decisions of an arena, oldest first.
func (t *Tx) Decisions(arena string, limit int) ([]agon.Decision, error) {
	return many(t, scanDecision, `SELECT `+decisionColumns+` FROM
		(SELECT n, `+decisionColumns+` FROM decisions WHERE arena = $1 ORDER BY n DESC LIMIT $2) AS last ORDER BY n`, arena, limit)
}
