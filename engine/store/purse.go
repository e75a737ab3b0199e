package store

import (
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// Post writes a movement of a coldkey's purse; ErrConflict where its payment has
// been written down before.
func (t *Tx) Post(coldkey string, p agon.Posting) error {
	err := t.put(`INSERT INTO purse_postings (coldkey, what, micros, submission, payment, reason, at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		coldkey, p.What, int64(p.Micros), p.Submission, plain.Storable(p.Payment), plain.Storable(p.Reason), micros(p.At))
	return err
}

// Balance is the sum of a purse.
func (t *Tx) Balance(coldkey string) (agon.Micros, error) {
	n, err := one(t, scanInt, `SELECT COALESCE(sum(micros), 0) FROM purse_postings WHERE coldkey = $1`, coldkey)
	return agon.Micros(n), err
}

// Paid reports whether a payment from outside has been written down.
func (t *Tx) Paid(payment string) (bool, error) {
	n, err := one(t, scanInt, `SELECT count(*) FROM purse_postings WHERE payment <> '' AND payment = $1`, payment)
	return n > 0, err
}

func scanPosting(r scanner) (p agon.Posting, err error) {
	var at int64
	err = r.Scan(&p.N, &p.What, &p.Micros, &p.Submission, &p.Payment, &p.Reason, &at)
	p.At = fromMicros(at)
	return p, err
}

const postingColumns = `n, what, micros, submission, payment, reason, at`

// Postings returns the movements of a purse, newest first.
func (t *Tx) Postings(coldkey string, limit int) ([]agon.Posting, error) {
	return many(t, scanPosting, `SELECT `+postingColumns+` FROM purse_postings WHERE coldkey = $1 ORDER BY n DESC LIMIT $2`, coldkey, limit)
}

// PostingsOf returns what a submission moved, oldest first.
func (t *Tx) PostingsOf(submission string) ([]agon.Posting, error) {
	return many(t, scanPosting, `SELECT `+postingColumns+` FROM purse_postings WHERE submission <> '' AND submission = $1 ORDER BY n`, submission)
}

// PairsCost is what the counted plays of the pairs of a challenge cost, of both sides.
func (t *Tx) PairsCost(challenger string) (agon.Micros, error) {
	from, to := pairRange(challenger)
	n, err := one(t, scanInt, `SELECT COALESCE(sum(a.cost_micros), 0) FROM runs r JOIN attempts a ON a.run = r.id AND a.counted = 1
		WHERE r.grp <> '' AND r.grp >= $1 AND r.grp < $2`, from, to)
	return agon.Micros(n), err
}

// BurnFee writes down what was burnt for a submission; ErrConflict where it has
// paid for another.
func (t *Tx) BurnFee(submission string, f agon.Fee) error {
	old, err := one(t, scanString, `SELECT submission FROM burnt_fees WHERE ref = $1`, f.Ref)
	switch {
	case err == nil && old == submission:
		return nil
	case err == nil:
		return ErrConflict
	case !errors.Is(err, ErrNotFound):
		return err
	}
	_, err = t.exec(`INSERT INTO burnt_fees (ref, submission, amount, unit) VALUES ($1, $2, $3, $4)`, f.Ref, submission, f.Amount, f.Unit)
	return err
}

// BurntFees returns what was burnt for a submission.
func (t *Tx) BurntFees(submission string) ([]agon.Fee, error) {
	return many(t, func(r scanner) (f agon.Fee, err error) {
		back := 0
		err = r.Scan(&f.Ref, &f.Amount, &f.Unit, &back)
		f.Back = back != 0
		return f, err
	}, `SELECT ref, amount, unit, back FROM burnt_fees WHERE submission = $1 ORDER BY ref`, submission)
}

// FeesBack marks the fees of a submission as given back.
func (t *Tx) FeesBack(submission string) error {
	_, err := t.exec(`UPDATE burnt_fees SET back = 1 WHERE submission = $1`, submission)
	return err
}

// PayersOf returns the submissions of a miner in an arena for which a fee was burnt.
func (t *Tx) PayersOf(arena, miner string) ([]string, error) {
	return many(t, scanString, `SELECT DISTINCT s.id FROM submissions s JOIN burnt_fees f ON f.submission = s.id WHERE s.arena = $1 AND s.miner = $2 ORDER BY s.id`, arena, miner)
}
