package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// Attempt is one lease with what proves and settles it.
type Attempt struct {
	agon.Attempt
	Lease      string // its public id
	TokenHash  string // hex sha256 of the token; the token itself is nowhere
	Arena      string
	Submission string
	Outcome    string // the kind's word for what the agent did
	SeenAt     time.Time
	EventBytes int64
	EventCount int64
	EventHead  agon.Digest // running hash of the events
	Fact       int64       // the row of log_facts that names its result; 0: it has none
	ResultHash string      // of the result that was answered; empty: none yet
	Reply      string      // JSON of the answer
}

// Attempt states beyond agon.RunState's held ones.
const (
	AttemptDone      = "done"
	AttemptExpired   = "expired"
	AttemptCancelled = "cancelled" // its run was cancelled
)

// Live reports whether the attempt still holds its run.
func (a Attempt) Live() bool { return agon.RunState(a.State).Held() }

const attemptColumns = `a.run, a.n, a.lease, a.token_hash, a.arena, a.submission, a.validator, a.state, a.fault, a.reason, a.outcome,
	a.driver, a.cost_micros, a.box_ms, a.evidence, a.counted, a.late, a.leased_at, a.lease_until, a.seen_at, a.ended_at, a.event_bytes,
	a.event_count, a.event_head, a.result_hash, a.reply, a.statement, a.mark, a.fact`

func scanAttempt(r scanner) (Attempt, error) { return scanAttemptAnd(r) }

// scanAttemptAnd scans attemptColumns and what a query selects after them.
func scanAttemptAnd(r scanner, more ...any) (a Attempt, err error) {
	var driver, statement string
	var counted, late, leased, until, seen, ended int64
	if err := r.Scan(append([]any{
		&a.Run, &a.N, &a.Lease, &a.TokenHash, &a.Arena, &a.Submission, &a.Validator, &a.State, &a.Fault,
		&a.Reason, &a.Outcome, &driver, &a.CostMicros, &a.BoxMS, &a.Evidence, &counted, &late, &leased, &until, &seen,
		&ended, &a.EventBytes, &a.EventCount, &a.EventHead, &a.ResultHash, &a.Reply, &statement, &a.Mark, &a.Fact,
	}, more...)...); err != nil {
		return a, err
	}
	a.Counted, a.Late = counted != 0, late != 0
	a.LeasedAt, a.LeaseUntil, a.SeenAt, a.EndedAt = fromMicros(leased), fromMicros(until), fromMicros(seen), fromMicros(ended)
	if statement != "" {
		if err := json.Unmarshal([]byte(statement), &a.Statement); err != nil {
			return a, fmt.Errorf("decode statement: %w", err)
		}
	}
	if driver == "{}" { // of an attempt that has not reported
		return a, nil
	}
	if err := json.Unmarshal([]byte(driver), &a.Driver); err != nil {
		return a, fmt.Errorf("decode driver: %w", err)
	}
	return a, nil
}

// InsertAttempt stores a new lease. ErrConflict if the run has a live one.
func (t *Tx) InsertAttempt(a Attempt) error {
	err := t.put(`INSERT INTO attempts
		(run, n, lease, token_hash, arena, submission, validator, state, leased_at, lease_until, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'leased', $8, $9, $10)`,
		a.Run, int64(a.N), a.Lease, a.TokenHash, a.Arena, a.Submission, a.Validator,
		micros(a.LeasedAt), micros(a.LeaseUntil), micros(a.SeenAt))
	return err
}

// AttemptByLease returns the attempt of a lease, or ErrNotFound.
func (t *Tx) AttemptByLease(lease string) (Attempt, error) {
	return one(t, scanAttempt, `SELECT `+attemptColumns+` FROM attempts a WHERE a.lease = $1`, lease)
}

// Lease is an attempt with what it is an attempt of.
type Lease struct {
	Attempt
	Of   Run         // without its scores
	Code agon.Digest // of the submission's files
}

// Lease returns all that the holder of a lease is asked about, in one look, or
// ErrNotFound.
func (t *Tx) Lease(lease string) (Lease, error) {
	return one(t, func(r scanner) (l Lease, err error) {
		var x runRow
		if l.Attempt, err = scanAttemptAnd(r, append(x.into(), &l.Code)...); err != nil {
			return l, err
		}
		l.Of, err = t.runOf(&x)
		return l, err
	}, `SELECT `+attemptColumns+`, `+runColumns+`, s.digest FROM attempts a JOIN runs r ON r.id = a.run
		JOIN policies p ON p.digest = r.policy JOIN submissions s ON s.id = r.submission WHERE a.lease = $1`, lease)
}

// Attempts returns the attempts of a run, oldest first.
func (t *Tx) Attempts(run string) ([]Attempt, error) {
	return many(t, scanAttempt, `SELECT `+attemptColumns+` FROM attempts a WHERE a.run = $1 ORDER BY a.n`, run)
}

// Counted returns the attempts whose results count for runs, by run.
func (t *Tx) Counted(runs []Run) (map[string]Attempt, error) {
	out := make(map[string]Attempt, len(runs))
	err := eachIn(runs, func(ids []any) error {
		list, err := many(t, scanAttempt, `SELECT `+attemptColumns+` FROM attempts a WHERE a.counted = 1 AND a.run IN (`+placeholders+`)`, ids...)
		for _, a := range list {
			out[a.Run] = a
		}
		return err
	})
	return out, err
}

// LiveAttempt returns the attempt that holds a run, or ErrNotFound.
func (t *Tx) LiveAttempt(run string) (Attempt, error) {
	return one(t, scanAttempt, `SELECT `+attemptColumns+` FROM attempts a WHERE a.run = $1
		AND `+held, run)
}

// LiveOf returns the attempts that hold runs, of one validator or (empty) of all.
func (t *Tx) LiveOf(validator string) ([]Attempt, error) {
	return many(t, scanAttempt, `SELECT `+attemptColumns+` FROM attempts a
		WHERE `+held+` AND ($1 = '' OR validator = $1)`, validator)
}

// HasAttempt reports whether a validator ever held a run of a submission, or judged one.
func (t *Tx) HasAttempt(submission, validator string) (bool, error) {
	n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS
		(SELECT 1 FROM attempts WHERE submission = $1 AND validator = $2) OR EXISTS
		(SELECT 1 FROM judgings WHERE submission = $1 AND validator = $2) THEN 1 ELSE 0 END`, submission, validator)
	return n > 0, err
}

// Costs are what the arena's newest scored runs spent at the gateway, newest first.
func (t *Tx) Costs(arena string, limit int) ([]agon.Micros, error) {
	return many(t, func(r scanner) (m agon.Micros, err error) { err = r.Scan(&m); return m, err },
		`SELECT a.cost_micros FROM runs r JOIN attempts a ON a.run = r.id AND a.counted = 1
		WHERE r.arena = $1 AND r.state = 'scored' ORDER BY r.n DESC LIMIT $2`, arena, limit)
}

// BeatAttempt extends a live lease.
func (t *Tx) BeatAttempt(a Attempt) error {
	return t.put1(`UPDATE attempts SET state = $1, lease_until = $2, seen_at = $3 WHERE run = $4 AND n = $5
		AND `+held,
		a.State, micros(a.LeaseUntil), micros(a.SeenAt), a.Run, int64(a.N))
}

// EndAttempt writes how an attempt ended, or what a lost one reported late.
// ErrConflict if another attempt of the run is counted.
func (t *Tx) EndAttempt(a Attempt) error {
	driver, err := json.Marshal(a.Driver)
	if err != nil {
		return fmt.Errorf("encode driver: %w", err)
	}
	if a.ResultHash != "" && !a.Late {
		a.Fact = t.fact(FactResult, a.Run+"/"+strconv.Itoa(a.N))
	}
	statement := []byte(nil)
	if a.Statement != nil {
		if statement, err = json.Marshal(a.Statement); err != nil {
			return fmt.Errorf("encode statement: %w", err)
		}
	}
	return t.put1(`UPDATE attempts SET state = $1, fault = $2, reason = $3, outcome = $4, driver = $5, cost_micros = $6,
		box_ms = $7, evidence = $8, counted = $9, late = $10, ended_at = $11, result_hash = $12, reply = $13, statement = $14, mark = $15, fact = $16
		WHERE run = $17 AND n = $18`,
		a.State, string(a.Fault), plain.Storable(a.Reason), plain.Storable(a.Outcome), string(driver), int64(a.CostMicros), a.BoxMS,
		string(a.Evidence), bit(a.Counted), bit(a.Late), micros(a.EndedAt), a.ResultHash, a.Reply, string(statement), a.Mark, a.Fact, a.Run, int64(a.N))
}

// SetEventUse stores how much of its event allowance an attempt has used.
func (t *Tx) SetEventUse(a Attempt) error {
	return t.put1(`UPDATE attempts SET event_bytes = $1, event_count = $2, event_head = $3 WHERE run = $4 AND n = $5`,
		a.EventBytes, a.EventCount, string(a.EventHead), a.Run, int64(a.N))
}

// EventSeqs returns which numbers from first to last an attempt's events have.
func (t *Tx) EventSeqs(run string, attempt int, first, last int64) (map[int64]bool, error) {
	list, err := many(t, scanInt, `SELECT seq FROM events WHERE run = $1 AND attempt = $2 AND seq BETWEEN $3 AND $4`, run, int64(attempt), first, last)
	out := make(map[int64]bool, len(list))
	for _, n := range list {
		out[n] = true
	}
	return out, err
}

// InsertEvent appends an event whose number is not there yet (EventSeqs).
func (t *Tx) InsertEvent(e agon.Event) error {
	return t.put1(`INSERT INTO events (run, attempt, seq, at, task, type, data) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		e.Run, int64(e.Attempt), e.Seq, micros(e.At), e.Task, e.Type, string(e.Data))
}

// ArchivedSeqs adds the numbers of an attempt's archived events to there: a report that
// comes very late repeats none of them.
func (t *Tx) ArchivedSeqs(run string, attempt int, there map[int64]bool) error {
	x, err := t.archived(run)
	if err != nil || x == nil {
		return err
	}
	for _, e := range x.Events {
		if e.Attempt == attempt {
			there[e.Seq] = true
		}
	}
	return nil
}

// Events returns events of a run after a cursor, in order, from wherever they stand.
func (t *Tx) Events(run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error) {
	list, err := many(t, scanEvent, `SELECT `+eventColumns+` FROM events WHERE run = $1
		AND (attempt > $2 OR (attempt = $2 AND seq > $3)) ORDER BY attempt, seq LIMIT $4`,
		run, int64(afterAttempt), afterSeq, limit)
	if err != nil {
		return nil, err
	}
	x, err := t.archived(run)
	return eventsWith(x, list, afterAttempt, afterSeq, limit), err
}

// InsertReceipt stores a receipt of an attempt; a repeated id changes nothing.
func (t *Tx) InsertReceipt(run string, attempt int, r agon.Receipt) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode receipt: %w", err)
	}
	err = t.put(`INSERT INTO receipts (run, attempt, id, task, body) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (run, attempt, id) DO NOTHING`, run, int64(attempt), r.ID, r.Task, string(b))
	return err
}

// Receipts returns the receipts of an attempt by id, from wherever they stand.
func (t *Tx) Receipts(run string, attempt int) ([]agon.Receipt, error) {
	list, err := many(t, func(r scanner) (x agon.Receipt, err error) {
		var body string
		if err := r.Scan(&body); err != nil {
			return x, err
		}
		return decodeReceipt(body)
	}, `SELECT body FROM receipts WHERE run = $1 AND attempt = $2 ORDER BY id`, run, int64(attempt))
	if err != nil {
		return nil, err
	}
	x, err := t.archived(run)
	if err != nil {
		return nil, err
	}
	return receiptsWith(x, attempt, list)
}

func decodeReceipt(body string) (x agon.Receipt, err error) {
	if err := json.Unmarshal([]byte(body), &x); err != nil {
		return x, fmt.Errorf("decode receipt: %w", err)
	}
	return x, nil
}
