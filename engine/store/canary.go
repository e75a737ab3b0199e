package store

import (
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

const canaryGroup = "canary "

// idLen is how long an id is: a UUID.
const idLen = 36

// CanaryGroup names the runs of a canary: each validator plays one of a submission.
func CanaryGroup(id string) string { return canaryGroup + id }

// CanaryStageGroup is CanaryGroup of one task of a stage: a validator plays each task of it once.
func CanaryStageGroup(id, stage, task string) string {
	return CanaryGroup(id) + " " + StageGroup(stage, task)
}

// CanaryOf returns the canary of a group; "" is none.
func CanaryOf(group string) string {
	id, ok := strings.CutPrefix(group, canaryGroup)
	if !ok {
		return ""
	}
	id, _, _ = strings.Cut(id, " ")
	return id
}

// canaryRange bounds the groups of a canary: from <= grp < to.
func canaryRange(id string) (from, to string) { return CanaryGroup(id), CanaryGroup(id) + "!" }

const canaryColumns = `id, arena, submission, rival, known, tolerance, plays, at, actor, reason`

func scanCanary(r scanner) (c agon.Canary, err error) {
	var at int64
	err = r.Scan(&c.ID, &c.Arena, &c.Submission, &c.Rival, &c.Known, &c.Tolerance, &c.Plays, &at, &c.Actor, &c.Reason)
	c.At = fromMicros(at)
	return c, err
}

// InsertCanary stores a canary.
func (t *Tx) InsertCanary(c agon.Canary) error {
	_, err := t.exec(`INSERT INTO canaries (`+canaryColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		c.ID, c.Arena, c.Submission, c.Rival, c.Known, c.Tolerance, c.Plays, micros(c.At), c.Actor, plain.Storable(c.Reason))
	return err
}

// Canary returns a canary, or ErrNotFound.
func (t *Tx) Canary(id string) (agon.Canary, error) {
	return one(t, scanCanary, `SELECT `+canaryColumns+` FROM canaries WHERE id = $1`, id)
}

// Canaries returns those of an arena, newest first.
func (t *Tx) Canaries(arena string, limit int) ([]agon.Canary, error) {
	return many(t, scanCanary, `SELECT `+canaryColumns+` FROM canaries WHERE arena = $1 ORDER BY at DESC, id LIMIT $2`, arena, limit)
}

// CanaryPlay is a run of a canary that a validator has scored.
type CanaryPlay struct {
	Run, Submission string
	Task            string // of a stage; else ""
	Value           float64
}

// CanaryPlays returns the scored runs of a canary by a validator, with the mean of their scores.
func (t *Tx) CanaryPlays(canary, validator string) ([]CanaryPlay, error) {
	from, to := canaryRange(canary)
	return many(t, func(r scanner) (p CanaryPlay, err error) {
		var group string
		err = r.Scan(&p.Run, &p.Submission, &group, &p.Value)
		if stage := StageOf(group); stage != "" {
			p.Task = strings.TrimPrefix(group, CanaryStageGroup(canary, stage, ""))
		}
		return p, err
	}, `SELECT r.id, r.submission, r.grp, (SELECT COALESCE(avg(s.value), 0.0) FROM scores s WHERE s.run = r.id) FROM runs r JOIN attempts a ON a.run = r.id AND a.counted = 1
		WHERE r.grp <> '' AND r.grp >= $1 AND r.grp < $2 AND a.validator = $3 ORDER BY r.n`, from, to, validator)
}

// CanaryRuns counts the runs of a canary that were queued for all who play it.
func (t *Tx) CanaryRuns(canary string) (int64, error) {
	from, to := canaryRange(canary)
	return one(t, scanInt, `SELECT count(*) FROM runs r WHERE r.grp <> '' AND r.grp >= $1 AND r.grp < $2`, from, to)
}

// StageCanary reports whether a canary of a submission's stage is under way.
func (t *Tx) StageCanary(submission, stage string) (bool, error) {
	list, err := many(t, scanString, `SELECT r.grp FROM runs r WHERE r.submission = $1 AND substr(r.grp, 1, 7) = 'canary ' AND `+live, submission)
	return slices.ContainsFunc(list, func(g string) bool { return StageOf(g) == stage }), err
}

// HitCanary stores what a validator made of a canary; ErrConflict if its run has a hit.
func (t *Tx) HitCanary(h agon.CanaryHit) error {
	t.StandingMoves()
	_, err := t.exec(`INSERT INTO canary_hits (run, canary, arena, validator, known, observed, missed, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		h.Run, h.Canary, h.Arena, h.Validator, h.Known, h.Observed, bit(h.Missed), micros(h.At))
	return err
}

const hitColumns = `run, canary, arena, validator, known, observed, missed, at`

func scanHit(r scanner) (h agon.CanaryHit, err error) {
	var missed, at int64
	err = r.Scan(&h.Run, &h.Canary, &h.Arena, &h.Validator, &h.Known, &h.Observed, &missed, &at)
	h.Missed, h.At = missed != 0, fromMicros(at)
	return h, err
}

// HitsOf returns what validators made of a canary, oldest first.
func (t *Tx) HitsOf(canary string) ([]agon.CanaryHit, error) {
	return many(t, scanHit, `SELECT `+hitColumns+` FROM canary_hits WHERE canary = $1 ORDER BY at, run`, canary)
}

// MissedBy returns the newest canaries that a validator got wrong since a time.
func (t *Tx) MissedBy(validator string, since time.Time, limit int) ([]agon.CanaryHit, error) {
	return many(t, scanHit, `SELECT `+hitColumns+` FROM canary_hits WHERE validator = $1 AND at > $2 AND missed = 1 ORDER BY at DESC, run LIMIT $3`, validator, micros(since), limit)
}

// CountCanaries counts the canaries that a validator played since a time, and those that it got wrong.
func (t *Tx) CountCanaries(validator string, since time.Time) (played, missed int, err error) {
	type pair struct{ played, missed int }
	x, err := one(t, func(r scanner) (p pair, err error) { err = r.Scan(&p.played, &p.missed); return p, err },
		`SELECT count(*), COALESCE(sum(missed), 0) FROM canary_hits WHERE validator = $1 AND at > $2`, validator, micros(since))
	return x.played, x.missed, err
}
