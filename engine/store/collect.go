package store

import (
	"fmt"
	"strings"
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

// classes are the kinds of references that go with a class of files. Evidence takes along
// what boxes printed: without its tree nothing says what that is.
var classes = map[string][]string{RefEvidence: {RefEvidence, RefOutput}, RefOutput: {RefOutput}}

// oldFiles selects the runs that ended before $1 and still have files of a class which
// nothing waits for. each is the class as SQL. A reference is looked up by its index, of which
// there is one for each kind.
func oldFiles(class string) (runs, each string, err error) {
	var has, is []string
	for _, what := range classes[class] {
		has = append(has, `EXISTS (SELECT 1 FROM blob_refs b WHERE b.what = '`+what+`' AND b.owner = r.id)`)
		is = append(is, `what = '`+what+`'`)
	}
	if len(is) == 0 {
		return "", "", fmt.Errorf("no class of files is called %q", class)
	}
	return `FROM runs r JOIN submissions s ON s.id = r.submission
	WHERE r.ended_at > 0 AND r.ended_at < $1 AND (` + strings.Join(has, ` OR `) + `) AND ` + settled, `(` + strings.Join(is, ` OR `) + `)`, nil
}

// CountOldFiles counts the runs that DropOldFiles would be about.
func (t *Tx) CountOldFiles(class string, before time.Time) (int64, error) {
	runs, _, err := oldFiles(class)
	if err != nil {
		return 0, err
	}
	return one(t, scanInt, `SELECT COUNT(*) `+runs, micros(before))
}

// EachOldFile calls fn with every digest to which nothing but references refers that
// DropOldFiles would remove.
func (t *Tx) EachOldFile(class string, before time.Time, fn func(agon.Digest)) error {
	runs, each, err := oldFiles(class)
	if err != nil {
		return err
	}
	_, err = many(t, func(r scanner) (x struct{}, err error) {
		var d string
		if err = r.Scan(&d); err == nil {
			fn(agon.Digest(d))
		}
		return x, err
	}, `WITH old AS (SELECT r.id `+runs+`)
		SELECT digest FROM blob_refs WHERE `+each+` AND owner IN (SELECT id FROM old)
		EXCEPT SELECT digest FROM blob_refs WHERE NOT `+each+` OR owner NOT IN (SELECT id FROM old)`, micros(before))
	return err
}

// DropOldFiles forgets what blobs are files of a class (RefEvidence, RefOutput) of at most
// limit runs that ended before a time, and returns of how many. It looks at runs above the
// number after, in their order, and returns the last. These runs say that their files are
// gone (Gone). Scores, events and receipts stay.
func (t *Tx) DropOldFiles(class string, before time.Time, after int64, limit int) (n, last int64, err error) {
	runs, _, err := oldFiles(class)
	if err != nil {
		return 0, 0, err
	}
	type run struct {
		id string
		n  int64
	}
	list, err := many(t, func(r scanner) (x run, err error) {
		err = r.Scan(&x.id, &x.n)
		return x, err
	}, `SELECT r.id, r.n `+runs+` AND r.n > $2 ORDER BY r.n LIMIT $3`, micros(before), after, int64(limit))
	if err != nil {
		return 0, 0, err
	}
	for _, r := range list {
		for _, what := range classes[class] {
			had, err := t.exec(`DELETE FROM blob_refs WHERE what = '`+what+`' AND owner = $1`, r.id)
			if err == nil && had > 0 {
				_, err = t.exec(`INSERT INTO gone_files (run, what) VALUES ($1, $2) ON CONFLICT (run, what) DO NOTHING`, r.id, what)
			}
			if err != nil {
				return 0, 0, err
			}
		}
		last = r.n
	}
	return int64(len(list)), last, nil
}
