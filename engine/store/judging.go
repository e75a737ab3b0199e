package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// Judging is a judging with what its lease needs.
type Judging struct {
	agon.Rejudging
	N          int64
	Submission string
	Subject    string // the submission whose decision waits
	TokenHash  string
	ResultHash string
	Tries      int
	LeasedAt   time.Time
	Deadline   time.Time
}

const judgingColumns = `j.n, j.id, j.run, j.attempt, j.arena, j.submission, j.subject, j.k, j.why, j.player, j.validator, j.token_hash, j.state,
	j.verdict, j.against, j.scores, j.driver, j.reason, j.result_hash, j.tries, j.created_at, j.leased_at, j.deadline, j.ended_at`

func scanJudging(r scanner) (j Judging, err error) {
	var scores, driver string
	var created, leased, deadline, ended int64
	if err := r.Scan(&j.N, &j.ID, &j.Run, &j.Attempt, &j.Arena, &j.Submission, &j.Subject, &j.K, &j.Why, &j.Player, &j.Validator, &j.TokenHash, &j.State,
		&j.Verdict, &j.Against, &scores, &driver, &j.Reason, &j.ResultHash, &j.Tries, &created, &leased, &deadline, &ended); err != nil {
		return j, err
	}
	j.CreatedAt, j.LeasedAt, j.Deadline, j.EndedAt = fromMicros(created), fromMicros(leased), fromMicros(deadline), fromMicros(ended)
	if err := json.Unmarshal([]byte(scores), &j.Scores); err != nil {
		return j, fmt.Errorf("decode scores of judging: %w", err)
	}
	if err := json.Unmarshal([]byte(driver), &j.Driver); err != nil {
		return j, fmt.Errorf("decode driver of judging: %w", err)
	}
	return j, nil
}

// InsertJudging queues a judging. ErrConflict if the run has one of this K.
func (t *Tx) InsertJudging(j Judging) error {
	_, err := t.exec(`INSERT INTO judgings (id, run, attempt, arena, submission, subject, k, why, player, state, created_at, deadline)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'queued', $10, $11)`,
		j.ID, j.Run, int64(j.Attempt), j.Arena, j.Submission, j.Subject, int64(j.K), j.Why, j.Player, micros(j.CreatedAt), micros(j.Deadline))
	return err
}

// Judging returns one judging, or ErrNotFound.
func (t *Tx) Judging(id string) (Judging, error) {
	return one(t, scanJudging, `SELECT `+judgingColumns+` FROM judgings j WHERE j.id = $1`, id)
}

// JudgingsOf returns the judgings of a run, the second before the third.
func (t *Tx) JudgingsOf(run string) ([]Judging, error) {
	return many(t, scanJudging, `SELECT `+judgingColumns+` FROM judgings j WHERE j.run = $1 ORDER BY j.k`, run)
}

// JudgingsOfRuns returns the judgings of runs, by run, the second before the third.
func (t *Tx) JudgingsOfRuns(runs []Run) (map[string][]Judging, error) {
	out := map[string][]Judging{}
	err := eachIn(runs, func(ids []any) error {
		list, err := many(t, scanJudging, `SELECT `+judgingColumns+` FROM judgings j WHERE j.run IN (`+placeholders+`) ORDER BY j.run, j.k`, ids...)
		for _, j := range list {
			out[j.Run] = append(out[j.Run], j)
		}
		return err
	})
	return out, err
}

// OpenJudgings reports whether a submission's decision waits for a judging.
func (t *Tx) OpenJudgings(subject string) (bool, error) {
	n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM judgings WHERE subject = $1 AND (state = 'queued' OR state = 'leased')) THEN 1 ELSE 0 END`, subject)
	return n > 0, err
}

// CountJudgings counts the judgings of an arena that a decision waits for.
func (t *Tx) CountJudgings(arena string) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM judgings j JOIN submissions s ON s.id = j.subject
		WHERE (j.state = 'queued' OR j.state = 'leased') AND j.arena = $1 AND (s.state = 'queued' OR s.state = 'playing')`, arena)
}

// AnyJudging reports whether a judging waits in one of the arenas.
func (t *Tx) AnyJudging(arenas []string) (bool, error) {
	for _, a := range arenas {
		n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM judgings WHERE arena = $1 AND state = 'queued' AND why <> 'fault') THEN 1 ELSE 0 END`, a)
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

// strange is the condition under which v, of coldkey c, may judge what the
// validator p played of a submission s of an arena: it neither played nor judged it before,
// and it is not of one owner with who did, nor with a contestant of the run.
func strange(v, c string) string {
	return ` AND j.player <> ` + v + `
		AND NOT EXISTS (SELECT 1 FROM judgings o WHERE o.run = j.run AND o.id <> j.id AND (o.validator = ` + v + ` OR (` + c + ` <> '' AND EXISTS (
			SELECT 1 FROM judges p WHERE p.arena = j.arena AND p.validator = o.validator AND p.coldkey = ` + c + `))))
		AND (` + c + ` = '' OR NOT EXISTS (SELECT 1 FROM judges p WHERE p.arena = j.arena AND p.validator = j.player AND p.coldkey = ` + c + `))
		AND NOT EXISTS (SELECT 1 FROM submissions s WHERE (s.id = j.submission OR s.id = j.subject) AND (s.miner = ` + v + ` OR (` + c + ` <> '' AND s.coldkey = ` + c + `)))
		AND (r.rival = '' OR NOT EXISTS (SELECT 1 FROM submissions s WHERE s.arena = j.arena AND (s.miner = ` + v + ` OR (` + c + ` <> '' AND s.coldkey = ` + c + `))
			AND r.rival LIKE '%"' || s.id || '"%'))`
}

// NextJudging returns the oldest judging of an arena that c may have, or ErrNotFound.
func (t *Tx) NextJudging(arena string, c Claimant) (Judging, error) {
	without, err := c.without()
	if err != nil {
		return Judging{}, err
	}
	const queue = `judgings j JOIN runs r ON r.id = j.run WHERE j.arena = $1 AND j.state = 'queued' AND j.why <> 'fault'`
	cards, more, err := t.withoutGPUs(queue, arena, c, 5)
	if err != nil {
		return Judging{}, err
	}
	return one(t, scanJudging, `SELECT `+judgingColumns+` FROM `+queue+`
		AND (r.driver = '' OR r.driver = $2)`+strange("$3", "$4")+without+cards+` ORDER BY j.n LIMIT 1`,
		append([]any{arena, c.Driver, c.Validator, c.Coldkey}, more...)...)
}

// HasJudge reports whether a validator that lately asked for something to judge may have j.
func (t *Tx) HasJudge(j Judging, since time.Time) (bool, error) {
	n, err := one(t, scanInt, `SELECT count(*) FROM (SELECT 1 FROM judges v JOIN judgings j ON j.id = $2 JOIN runs r ON r.id = j.run
		WHERE v.arena = $1 AND v.at > $3`+strange("v.validator", "v.coldkey")+` LIMIT 1) x`, j.Arena, j.ID, micros(since))
	return n > 0, err
}

// HeldJudgings counts the judgings that a validator holds.
func (t *Tx) HeldJudgings(validator string) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM judgings WHERE validator = $1 AND state = 'leased'`, validator)
}

// LiveJudgings returns judgings that have not ended, those with the earliest deadline first.
func (t *Tx) LiveJudgings(limit int) ([]Judging, error) {
	return many(t, scanJudging, `SELECT `+judgingColumns+` FROM judgings j WHERE (j.state = 'queued' OR j.state = 'leased') ORDER BY j.deadline LIMIT $1`, limit)
}

// MoveJudging writes a judging, guarded by the state that it was read in.
func (t *Tx) MoveJudging(from agon.JudgingState, j Judging) error {
	scores, err := json.Marshal(j.Scores)
	if err != nil {
		return fmt.Errorf("encode scores of judging: %w", err)
	}
	if j.Scores == nil {
		scores = []byte("[]")
	}
	driver, err := json.Marshal(j.Driver)
	if err != nil {
		return fmt.Errorf("encode driver of judging: %w", err)
	}
	t.StandingMoves()
	return t.exec1(`UPDATE judgings SET state = $1, validator = $2, token_hash = $3, verdict = $4, against = $5, scores = $6, driver = $7, reason = $8,
		result_hash = $9, tries = $10, leased_at = $11, deadline = $12, ended_at = $13 WHERE id = $14 AND state = $15`,
		string(j.State), j.Validator, j.TokenHash, j.Verdict, j.Against, string(scores), string(driver), plain.Storable(j.Reason),
		j.ResultHash, int64(j.Tries), micros(j.LeasedAt), micros(j.Deadline), micros(j.EndedAt), j.ID, string(from))
}

// SharedJudgings counts the judgings of an arena that were drawn since a time.
func (t *Tx) SharedJudgings(arena string, since time.Time) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM judgings WHERE arena = $1 AND why = 'share' AND created_at > $2`, arena, micros(since))
}

// Rule stores what counts for a task of a run instead of its first result.
func (t *Tx) Rule(run string, s agon.Score) error {
	m, err := json.Marshal(s.Metrics)
	if err != nil {
		return fmt.Errorf("encode metrics: %w", err)
	}
	_, err = t.exec(`INSERT INTO rulings (run, task, value, solved, metrics, scorer, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (run, task) DO UPDATE SET value = excluded.value, solved = excluded.solved, metrics = excluded.metrics, scorer = excluded.scorer, detail = excluded.detail`,
		run, s.Task, s.Value, bit(s.Solved), string(m), plain.Storable(s.Scorer), plain.Storable(s.Detail))
	return err
}

// ruled puts rulings in the place of first results.
func (t *Tx) ruled(byRun map[string][]agon.Score, where string, args ...any) error {
	list, err := many(t, scanScore, `SELECT `+scoreColumns+` FROM rulings s JOIN runs r ON r.id = s.run WHERE `+where, args...)
	if err != nil {
		return err
	}
	for _, s := range list {
		for i, old := range byRun[s.Run] {
			if old.Task == s.Task {
				byRun[s.Run][i] = s
			}
		}
	}
	return nil
}

// SawJudge notes whose a validator is and, where at is not zero, that it asked
// for something to judge.
func (t *Tx) SawJudge(arena, validator, coldkey string, at time.Time) error {
	err := t.put(`INSERT INTO judges (arena, validator, coldkey, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (arena, validator) DO UPDATE SET coldkey = CASE WHEN excluded.coldkey = '' THEN judges.coldkey ELSE excluded.coldkey END,
		at = CASE WHEN excluded.at > judges.at THEN excluded.at ELSE judges.at END`, arena, validator, coldkey, micros(at))
	return err
}

// ValidatorRecord is what is known of how far a validator's word holds.
type ValidatorRecord struct {
	Validator    string
	Runs         int64 // counted results
	JudgedAgain  int64 // of them, judged by others
	Judged       int64 // results of others that it has judged
	Contradicted int64 // cases settled against it
}

// RecordOf counts the cases of one validator since a time; runs are not counted.
func (t *Tx) RecordOf(validator string, since time.Time) (r ValidatorRecord, err error) {
	r.Validator = validator
	if r.Contradicted, err = one(t, scanInt, `SELECT count(*) FROM judgings WHERE against <> '' AND against = $1 AND ended_at > $2`, validator, micros(since)); err != nil {
		return r, err
	}
	if r.JudgedAgain, err = one(t, scanInt, `SELECT count(*) FROM judgings WHERE player = $1 AND ended_at > $2 AND k = 2 AND state = 'done'`, validator, micros(since)); err != nil {
		return r, err
	}
	r.Judged, err = one(t, scanInt, `SELECT count(*) FROM judgings WHERE validator = $1 AND ended_at > $2 AND state = 'done'`, validator, micros(since))
	return r, err
}

// CountedRuns counts the counted results of every validator.
func (t *Tx) CountedRuns() (map[string]int64, error) {
	type kv struct {
		validator string
		n         int64
	}
	list, err := many(t, func(r scanner) (x kv, err error) { err = r.Scan(&x.validator, &x.n); return x, err },
		`SELECT validator, count(*) FROM attempts WHERE counted = 1 GROUP BY validator`)
	out := make(map[string]int64, len(list))
	for _, x := range list {
		out[x.validator] = x.n
	}
	return out, err
}

// KnownJudges returns every validator that has been seen.
func (t *Tx) KnownJudges() ([]string, error) {
	return many(t, scanString, `SELECT DISTINCT validator FROM judges ORDER BY validator`)
}

// Cases returns the newest judgings that were settled against a validator.
func (t *Tx) Cases(validator string, limit int) ([]Judging, error) {
	return many(t, scanJudging, `SELECT `+judgingColumns+` FROM judgings j WHERE j.against <> '' AND j.against = $1 ORDER BY j.ended_at DESC, j.n DESC LIMIT $2`, validator, limit)
}

// Agreed is how often a validator judged another's results, and of one mind with it.
type Agreed struct {
	Player, Validator string
	Judged, Agrees    int64
}

// AgreedPairs counts the judgings between every two validators.
func (t *Tx) AgreedPairs() ([]Agreed, error) {
	return many(t, func(r scanner) (x Agreed, err error) {
		err = r.Scan(&x.Player, &x.Validator, &x.Judged, &x.Agrees)
		return x, err
	}, `SELECT player, validator, count(*), sum(CASE WHEN verdict = 'agrees' THEN 1 ELSE 0 END) FROM judgings WHERE state = 'done'
		GROUP BY player, validator ORDER BY player, validator`)
}
