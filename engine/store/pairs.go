package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// Halves of paired replays: runs of one side each, in a group a stream.

const pairGroup = "pair "

// PairGroup names the runs of one stream of the pairs that decide a challenge.
func PairGroup(challenger string, stream int) string {
	return pairGroup + challenger + " " + strconv.Itoa(stream)
}

// PairChallenger returns whose challenge a group decides; "" is not of pairs.
func PairChallenger(group string) string {
	rest, ok := strings.CutPrefix(group, pairGroup)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// PairStream returns the stream of a group of pairs.
func PairStream(group string) int {
	n, _ := strconv.Atoi(group[strings.LastIndexByte(group, ' ')+1:])
	return n
}

// pairRange bounds the groups of one challenge: from <= grp < to.
func pairRange(challenger string) (from, to string) {
	return pairGroup + challenger + " ", pairGroup + challenger + "!"
}

// aside reports whether a submission's result leaves out the runs of a group, as noHalf does.
func aside(group string) bool {
	for _, begin := range []string{pairGroup, appealGroup, "set ", replayGroup, canaryGroup} {
		if strings.HasPrefix(group, begin) {
			return true
		}
	}
	return false
}

// noHalf leaves out halves of pairs, what appeals played again, faults that others
// played again, canaries, and plays on the sets of later periods: they are not part
// of a submission's result.
const noHalf = ` AND substr(r.grp, 1, 5) <> 'pair ' AND substr(r.grp, 1, 7) <> 'appeal ' AND substr(r.grp, 1, 4) <> 'set '` + noReplay

const noReplay = ` AND substr(r.grp, 1, 6) <> 'again ' AND substr(r.grp, 1, 7) <> 'canary '`

// Half is one side of a pair, played by Validator; "" where nobody has settled it.
type Half struct {
	Run
	Validator string
	Cost      agon.Micros
}

// Halves returns every half of the pairs of a challenge, with scores, by creation.
func (t *Tx) Halves(challenger string) ([]Half, error) {
	from, to := pairRange(challenger)
	halves, err := many(t, func(r scanner) (h Half, err error) {
		var x runRow
		if err := r.Scan(append(x.into(), &h.Validator, &h.Cost)...); err != nil {
			return h, err
		}
		h.Run, err = t.runOf(&x)
		return h, err
	}, `SELECT `+runColumns+`, COALESCE((SELECT a.validator FROM attempts a WHERE a.run = r.id AND a.counted = 1), ''),
		COALESCE((SELECT sum(a.cost_micros) FROM attempts a WHERE a.run = r.id), 0)`+runFrom+`
		WHERE r.grp <> '' AND r.grp >= $1 AND r.grp < $2 ORDER BY r.n`, from, to)
	if err != nil {
		return nil, err
	}
	scores, err := many(t, scanScore, `SELECT `+scoreColumns+` FROM runs r JOIN scores s ON s.run = r.id
		WHERE r.grp <> '' AND r.grp >= $1 AND r.grp < $2 ORDER BY r.n, s.task`, from, to)
	if err != nil {
		return nil, err
	}
	byRun := map[string][]agon.Score{}
	for _, s := range scores {
		byRun[s.Run] = append(byRun[s.Run], s)
	}
	if err := t.ruled(byRun, `r.grp <> '' AND r.grp >= $1 AND r.grp < $2`, from, to); err != nil {
		return nil, err
	}
	for i := range halves {
		halves[i].Scores = byRun[halves[i].RunSpec.Run]
	}
	return halves, nil
}

// LiveHalves reports whether a half of one of a challenge's streams has not ended.
func (t *Tx) LiveHalves(challenger string, streams int) (bool, error) {
	for i := range streams {
		n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM runs WHERE grp <> '' AND grp = $1 AND `+live+`) THEN 1 ELSE 0 END`,
			PairGroup(challenger, i))
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

// BindStream notes that a stream of pairs is a validator's from now on.
func (t *Tx) BindStream(group, validator string, at time.Time) error {
	err := t.put(`INSERT INTO pair_streams (grp, challenger, validator, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (grp) DO UPDATE SET validator = excluded.validator, at = excluded.at`, group, PairChallenger(group), validator, micros(at))
	return err
}

// CountContests counts the decisions by a rule in an arena since a time.
func (t *Tx) CountContests(arena, rule string, since time.Time) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM decisions WHERE arena = $1 AND rule = $2 AND at >= $3`, arena, rule, micros(since))
}
