package store

import (
	"time"

	"github.com/agon-arena/agon"
)

// EachRef calls fn with every digest that something refers to, once for each reference.
func (t *Tx) EachRef(fn func(agon.Digest)) error {
	_, err := many(t, func(r scanner) (x struct{}, err error) {
		var d string
		if err = r.Scan(&d); err == nil {
			fn(agon.Digest(d))
		}
		return x, err
	}, `SELECT DISTINCT digest FROM blob_refs`)
	return err
}

// oldEvidence selects the runs that ended before $1 and still have evidence which
// nothing waits for.
const oldEvidence = `SELECT r.id FROM runs r JOIN submissions s ON s.id = r.submission
	WHERE r.ended_at > 0 AND r.ended_at < $1
	AND EXISTS (SELECT 1 FROM blob_refs b WHERE b.what = 'evidence' AND b.owner = r.id) AND ` + settled

// CountOldEvidence counts the runs that DropOldEvidence would be about.
func (t *Tx) CountOldEvidence(before time.Time) (int64, error) {
	return one(t, scanInt, `SELECT COUNT(*) FROM (`+oldEvidence+`) AS old`, micros(before))
}

// EachOldEvidence calls fn with every digest that only evidence refers to which
// DropOldEvidence would forget.
func (t *Tx) EachOldEvidence(before time.Time, fn func(agon.Digest)) error {
	_, err := many(t, func(r scanner) (x struct{}, err error) {
		var d string
		if err = r.Scan(&d); err == nil {
			fn(agon.Digest(d))
		}
		return x, err
	}, `WITH old AS (`+oldEvidence+`)
		SELECT digest FROM blob_refs WHERE what = 'evidence' AND owner IN (SELECT id FROM old)
		EXCEPT SELECT digest FROM blob_refs WHERE what <> 'evidence' OR owner NOT IN (SELECT id FROM old)`, micros(before))
	return err
}

// DropOldEvidence forgets what blobs are evidence of at most limit runs, and
// returns of how many. Scores, events and receipts stay.
func (t *Tx) DropOldEvidence(before time.Time, limit int) (int64, error) {
	runs, err := many(t, scanString, oldEvidence+` ORDER BY r.n LIMIT $2`, micros(before), int64(limit))
	if err != nil {
		return 0, err
	}
	for _, id := range runs {
		if _, err := t.exec(`DELETE FROM blob_refs WHERE what = 'evidence' AND owner = $1`, id); err != nil {
			return 0, err
		}
	}
	return int64(len(runs)), nil
}
