package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

const appealGroup = "appeal "

// AppealGroup names the runs that play a submission again for its appeal.
func AppealGroup(submission string) string { return appealGroup + submission }

// AppealOf returns whose appeal a group is of; "" is none.
func AppealOf(group string) string {
	id, ok := strings.CutPrefix(group, appealGroup)
	if !ok {
		return ""
	}
	return id
}

// Appeal is an appeal as it is stored.
type Appeal struct {
	agon.Appeal
	Coldkey string
}

const appealColumns = `submission, arena, miner, coldkey, reason, state, at, deadline, answered_at, answer, compared`

func scanAppeal(r scanner) (a Appeal, err error) {
	var at, deadline, answered int64
	var compared string
	if err := r.Scan(&a.Submission, &a.Arena, &a.Miner, &a.Coldkey, &a.Reason, &a.State, &at, &deadline, &answered, &a.Answer, &compared); err != nil {
		return a, err
	}
	a.At, a.Deadline, a.AnsweredAt = fromMicros(at), fromMicros(deadline), fromMicros(answered)
	if err := json.Unmarshal([]byte(compared), &a.Compared); err != nil {
		return a, fmt.Errorf("decode appeal: %w", err)
	}
	return a, nil
}

// InsertAppeal stores an appeal; ErrConflict if the submission has one.
func (t *Tx) InsertAppeal(a Appeal) error {
	b, err := json.Marshal(a.Compared)
	if err != nil {
		return fmt.Errorf("encode appeal: %w", err)
	}
	_, err = t.exec(`INSERT INTO appeals (`+appealColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		a.Submission, a.Arena, a.Miner, a.Coldkey, plain.Storable(a.Reason), a.State, micros(a.At), micros(a.Deadline), micros(a.AnsweredAt), plain.Storable(a.Answer), string(b))
	return err
}

// SetAppeal writes an appeal's state, answer and comparison.
func (t *Tx) SetAppeal(a Appeal) error {
	b, err := json.Marshal(a.Compared)
	if err != nil {
		return fmt.Errorf("encode appeal: %w", err)
	}
	return t.exec1(`UPDATE appeals SET state = $1, answered_at = $2, answer = $3, compared = $4 WHERE submission = $5`,
		a.State, micros(a.AnsweredAt), plain.Storable(a.Answer), string(b), a.Submission)
}

// Appeal returns a submission's appeal, or ErrNotFound.
func (t *Tx) Appeal(submission string) (Appeal, error) {
	return one(t, scanAppeal, `SELECT `+appealColumns+` FROM appeals WHERE submission = $1`, submission)
}

// Appeals returns the appeals of an arena, newest first.
func (t *Tx) Appeals(arena string, limit int) ([]Appeal, error) {
	return many(t, scanAppeal, `SELECT `+appealColumns+` FROM appeals WHERE arena = $1 ORDER BY at DESC, submission LIMIT $2`, arena, limit)
}

// OpenAppeals returns the unanswered appeals whose deadline has passed.
func (t *Tx) OpenAppeals(now time.Time) ([]Appeal, error) {
	return many(t, scanAppeal, `SELECT `+appealColumns+` FROM appeals WHERE state = 'open' AND deadline <= $1 ORDER BY deadline LIMIT 200`, micros(now))
}

// CountAppeals counts the open appeals of a coldkey in an arena.
func (t *Tx) CountAppeals(arena, coldkey string) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM appeals WHERE arena = $1 AND coldkey = $2 AND state = 'open'`, arena, coldkey)
}

// AppealRuns returns the runs that play a submission again for its appeal, with scores.
func (t *Tx) AppealRuns(submission string) ([]Run, error) {
	runs, err := many(t, t.scanRun, `SELECT `+runColumns+runFrom+`WHERE r.grp <> '' AND r.grp = $1 ORDER BY r.n`, AppealGroup(submission))
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if runs[i].Scores, err = t.Scores(runs[i].RunSpec.Run); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// LostMoney is what attempts of a submission cost that ended by a fault of ours.
func (t *Tx) LostMoney(submission string) (agon.Micros, error) {
	n, err := one(t, scanInt, `SELECT COALESCE(sum(cost_micros), 0) FROM attempts WHERE submission = $1 AND counted = 0
		AND fault IN ('task', 'platform', 'validator', 'provider', 'ledger')`, submission)
	return agon.Micros(n), err
}

// notCredited leaves out submissions that count neither as entries nor as
// attempts: a fault of ours, and no ban, kept them from being decided, or their appeal was granted.
const notCredited = ` AND NOT (s.state = 'excluded' AND s.findings LIKE '%"code":"incomplete"%' AND s.findings NOT LIKE '%"code":"banned"%')
	AND NOT EXISTS (SELECT 1 FROM appeals p WHERE p.submission = s.id AND p.state = 'granted')`
