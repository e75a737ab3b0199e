package store

import (
	"time"

	"github.com/agon-arena/agon/internal/plain"
)

// What is vetted.
const (
	VetEntry = "entry" // whether a submission is played
	VetSeat  = "seat"  // whether it takes the seat that its result would give it
)

// States of a vetting.
const (
	VettingOpen = "open" // nobody has it
	VettingHeld = "held" // a worker has it until LeaseUntil
	VettingSent = "sent" // the worker could not tell: the operator settles it
	VettingDone = "done"
)

// Verdicts of a vetting.
const (
	VetPassed  = "passed"
	VetRefused = "refused"
	VetUnsure  = "unsure"
)

// Vetting is what somebody outside is asked of a submission.
type Vetting struct {
	ID, Arena, Submission string
	What, State           string
	Tries                 int    // how often it was taken
	Worker, TokenHash     string // who has it, or had it last
	ClaimedAt, LeaseUntil time.Time
	NextAt                time.Time // not before
	Verdict               string
	Score, Confidence     float64 // 0 to 1, as the worker says
	Summary               string
	Detail                string // JSON of the worker; "": none
	Error                 string // why the last try came to nothing
	Actor                 string // of the operator who settled it
	CreatedAt, EndedAt    time.Time
}

const vettingColumns = `id, arena, submission, what, state, tries, worker, token, claimed_at, lease_until, next_at, verdict, score, confidence, summary, detail, error, actor, created_at, ended_at`

func scanVetting(r scanner) (v Vetting, err error) {
	var claimed, lease, next, created, ended int64
	err = r.Scan(&v.ID, &v.Arena, &v.Submission, &v.What, &v.State, &v.Tries, &v.Worker, &v.TokenHash, &claimed, &lease, &next,
		&v.Verdict, &v.Score, &v.Confidence, &v.Summary, &v.Detail, &v.Error, &v.Actor, &created, &ended)
	v.ClaimedAt, v.LeaseUntil, v.NextAt, v.CreatedAt, v.EndedAt = fromMicros(claimed), fromMicros(lease), fromMicros(next), fromMicros(created), fromMicros(ended)
	return v, err
}

// InsertVetting stores a vetting; ErrConflict if the submission has one of the same.
func (t *Tx) InsertVetting(v Vetting) error {
	_, err := t.exec(`INSERT INTO vettings (`+vettingColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
		v.ID, v.Arena, v.Submission, v.What, v.State, v.Tries, plain.Storable(v.Worker), v.TokenHash, micros(v.ClaimedAt), micros(v.LeaseUntil), micros(v.NextAt),
		v.Verdict, v.Score, v.Confidence, plain.Storable(v.Summary), plain.Storable(v.Detail), plain.Storable(v.Error), v.Actor, micros(v.CreatedAt), micros(v.EndedAt))
	return err
}

// SetVetting writes all of a vetting that may change.
func (t *Tx) SetVetting(v Vetting) error {
	return t.exec1(`UPDATE vettings SET state = $1, tries = $2, worker = $3, token = $4, claimed_at = $5, lease_until = $6, next_at = $7, verdict = $8, score = $9, confidence = $10,
		summary = $11, detail = $12, error = $13, actor = $14, ended_at = $15 WHERE id = $16`,
		v.State, v.Tries, plain.Storable(v.Worker), v.TokenHash, micros(v.ClaimedAt), micros(v.LeaseUntil), micros(v.NextAt), v.Verdict, v.Score, v.Confidence,
		plain.Storable(v.Summary), plain.Storable(v.Detail), plain.Storable(v.Error), v.Actor, micros(v.EndedAt), v.ID)
}

// Vetting returns a vetting, or ErrNotFound.
func (t *Tx) Vetting(id string) (Vetting, error) {
	return one(t, scanVetting, `SELECT `+vettingColumns+` FROM vettings WHERE id = $1`, id)
}

// VettingOf returns a submission's vetting, or ErrNotFound.
func (t *Tx) VettingOf(submission, what string) (Vetting, error) {
	return one(t, scanVetting, `SELECT `+vettingColumns+` FROM vettings WHERE submission = $1 AND what = $2`, submission, what)
}

// NextVetting returns the oldest vetting of an arena that may be taken now, or ErrNotFound.
func (t *Tx) NextVetting(arena, what string, now time.Time) (Vetting, error) {
	return one(t, scanVetting, `SELECT `+vettingColumns+` FROM vettings
		WHERE arena = $1 AND what = $2 AND (state = 'open' AND next_at <= $3 OR state = 'held' AND lease_until <= $3)
		AND EXISTS (SELECT 1 FROM submissions s WHERE s.id = vettings.submission AND s.state IN ('queued', 'playing')) ORDER BY created_at, id LIMIT 1`, arena, what, micros(now))
}

// Vettings returns those of an arena in a state ("" is any), the newest first.
func (t *Tx) Vettings(arena, what, state string, limit int) ([]Vetting, error) {
	return many(t, scanVetting, `SELECT `+vettingColumns+` FROM vettings WHERE arena = $1 AND what = $2 AND ($3 = '' OR state = $3) ORDER BY created_at DESC, id LIMIT $4`, arena, what, state, limit)
}

// InVetting reports whether a submission waits for somebody outside.
func (t *Tx) InVetting(submission string) (bool, error) {
	n, err := one(t, scanInt, `SELECT count(*) FROM vettings WHERE submission = $1 AND state <> 'done'`, submission)
	return n > 0, err
}
