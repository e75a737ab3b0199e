package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// SeedPeriod is a set period of an arena.
type SeedPeriod struct {
	Arena      string
	N          int64 // from 0
	Opens      time.Time
	Closes     time.Time // the secret may be shown from here; estimated where ClosesBlock is set
	Secret     string    // hex
	Commitment agon.Digest
	RevealedAt time.Time // zero: the secret has not been shown
	// OpensBlock begins it and ClosesBlock ends it; 0: its times do.
	OpensBlock, ClosesBlock uint64
	// Tasks is its set, for arenas with a supply; nil: it has none yet.
	Tasks []agon.TaskRef
	// TurnedAt is when its set began to be played, BeaconBlock the first block after
	// that and Beacon the block's hash: who sits is played by seeds of these.
	TurnedAt    time.Time
	BeaconBlock uint64
	Beacon      string
	// PublishedAt is when its set became public, as far as it is used up.
	PublishedAt time.Time
	// CommittedAt is when the secret was committed to; zero in periods of before.
	CommittedAt time.Time
	// Drand is the round by which its set was drawn besides the secret; nil: none was.
	Drand *Drand
	// Difficulty of its set and what that follows from; nil: the arena names none.
	Difficulty *agon.SetDifficulty
}

// Drand is a round of drand's quicknet.
type Drand struct {
	Round     uint64
	Signature string // hex
}

const periodColumns = `arena, n, opens, closes, secret, commitment, revealed_at, opens_block, closes_block, tasks, turned_at, beacon_block, beacon, published_at, committed_at, drand_round, drand_signature, difficulty`

func scanPeriod(r scanner) (s SeedPeriod, err error) {
	var opens, closes, revealed, openBlock, block, turned, beacon, published, committed, round int64
	var tasks, signature, difficulty string
	err = r.Scan(&s.Arena, &s.N, &opens, &closes, &s.Secret, &s.Commitment, &revealed, &openBlock, &block, &tasks, &turned, &beacon, &s.Beacon, &published, &committed, &round, &signature, &difficulty)
	s.Opens, s.Closes = fromMicros(opens), fromMicros(closes)
	s.OpensBlock, s.ClosesBlock, s.BeaconBlock = uint64(openBlock), uint64(block), uint64(beacon)
	for _, x := range []struct {
		to *time.Time
		at int64
	}{{&s.RevealedAt, revealed}, {&s.TurnedAt, turned}, {&s.PublishedAt, published}, {&s.CommittedAt, committed}} {
		if x.at != 0 {
			*x.to = fromMicros(x.at)
		}
	}
	if round > 0 {
		s.Drand = &Drand{uint64(round), signature}
	}
	if err == nil && tasks != "" {
		if err = json.Unmarshal([]byte(tasks), &s.Tasks); err != nil {
			err = fmt.Errorf("decode the set of a period: %w", err)
		}
	}
	if err == nil && difficulty != "" {
		if err = json.Unmarshal([]byte(difficulty), &s.Difficulty); err != nil {
			err = fmt.Errorf("decode the difficulty of a period: %w", err)
		}
	}
	return s, err
}

// InsertPeriod stores a period; ErrConflict if there is one of its number.
func (t *Tx) InsertPeriod(s SeedPeriod) error {
	_, err := t.exec(`INSERT INTO seed_periods (arena, n, opens, closes, secret, commitment, opens_block, closes_block, committed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		s.Arena, s.N, micros(s.Opens), micros(s.Closes), s.Secret, string(s.Commitment), int64(s.OpensBlock), int64(s.ClosesBlock), micros(s.CommittedAt))
	return err
}

// SetPeriodTasks gives a period its set, the round by which it was drawn and its difficulty,
// each nil where there is none; ErrNotFound if it has one.
func (t *Tx) SetPeriodTasks(arena string, n int64, tasks []agon.TaskRef, d *Drand, level *agon.SetDifficulty) error {
	b, err := json.Marshal(tasks)
	if err != nil {
		return fmt.Errorf("encode the set of a period: %w", err)
	}
	if d == nil {
		d = &Drand{}
	}
	var difficulty []byte
	if level != nil {
		if difficulty, err = json.Marshal(level); err != nil {
			return fmt.Errorf("encode the difficulty of a period: %w", err)
		}
	}
	return t.exec1(`UPDATE seed_periods SET tasks = $1, drand_round = $4, drand_signature = $5, difficulty = $6 WHERE arena = $2 AND n = $3 AND tasks = ''`,
		string(b), arena, n, int64(d.Round), d.Signature, string(difficulty))
}

// TurnPeriod notes that a period's set is played from now on.
func (t *Tx) TurnPeriod(arena string, n int64, at time.Time, block uint64, hash string) error {
	return t.exec1(`UPDATE seed_periods SET turned_at = $1, beacon_block = $2, beacon = $3 WHERE arena = $4 AND n = $5`, micros(at), int64(block), hash, arena, n)
}

// PublishPeriod notes that a period's set is public, as far as it is used up.
func (t *Tx) PublishPeriod(arena string, n int64, at time.Time) error {
	return t.exec1(`UPDATE seed_periods SET published_at = $1 WHERE arena = $2 AND n = $3`, micros(at), arena, n)
}

// UnpublishedPeriods returns the periods of an arena whose sets were played and
// are not public yet, oldest first.
func (t *Tx) UnpublishedPeriods(arena string) ([]SeedPeriod, error) {
	return many(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 AND published_at = 0 AND tasks <> '' ORDER BY n`, arena)
}

// PeriodUses counts in how many periods of an arena each task was, by digest.
func (t *Tx) PeriodUses(arena string) (map[agon.Digest]int, error) {
	list, err := many(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 AND tasks <> ''`, arena)
	out := map[agon.Digest]int{}
	for _, s := range list {
		for _, x := range s.Tasks {
			out[x.Digest]++
		}
	}
	return out, err
}

// AnyOpenEntry reports whether a submission of a period, or of one before, waits
// for its decision, or a run of them has not ended.
func (t *Tx) AnyOpenEntry(arena string, period int64) (bool, error) {
	n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM submissions WHERE arena = $1 AND period >= 0 AND period <= $2 AND (state = 'queued' OR state = 'playing'))
		OR EXISTS (SELECT 1 FROM runs r JOIN submissions s ON s.id = r.submission WHERE r.arena = $1 AND s.period <= $2 AND r.grp NOT LIKE 'set %' AND `+liveOf("r")+`)
		THEN 1 ELSE 0 END`, arena, period)
	return n > 0, err
}

// Score of who sits on the set of a later period than the one it entered in.
type Title struct {
	Arena      string
	Period     int64
	Submission string
	Done       bool
	Tries      int
	Score      float64
	Solved     int
	Total      int
	Stale      bool // faults of ours left no score: that of before stands
}

const titleColumns = `arena, period, submission, done, tries, score, solved, total, stale`

func scanTitle(r scanner) (x Title, err error) {
	var done, stale int64
	err = r.Scan(&x.Arena, &x.Period, &x.Submission, &done, &x.Tries, &x.Score, &x.Solved, &x.Total, &stale)
	x.Done, x.Stale = done != 0, stale != 0
	return x, err
}

// PutTitle stores a title, over the one of before.
func (t *Tx) PutTitle(x Title) error {
	_, err := t.exec(`INSERT INTO set_titles (`+titleColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (arena, period, submission) DO UPDATE SET done = excluded.done, tries = excluded.tries, score = excluded.score,
		solved = excluded.solved, total = excluded.total, stale = excluded.stale`,
		x.Arena, x.Period, x.Submission, bit(x.Done), int64(x.Tries), x.Score, int64(x.Solved), int64(x.Total), bit(x.Stale))
	return err
}

// Titles returns the titles of an arena, oldest period first.
func (t *Tx) Titles(arena string) ([]Title, error) {
	return many(t, scanTitle, `SELECT `+titleColumns+` FROM set_titles WHERE arena = $1 ORDER BY period, submission`, arena)
}

// AnyOpenTitle reports whether somebody who sits is being played on a period's set.
func (t *Tx) AnyOpenTitle(arena string, period int64) (bool, error) {
	n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM set_titles WHERE arena = $1 AND period = $2 AND done = 0) THEN 1 ELSE 0 END`, arena, period)
	return n > 0, err
}

const setGroup = "set "

// TitleGroup names runs that play somebody who sits on the set of a period.
func TitleGroup(period int64, more string) string {
	return setGroup + strconv.FormatInt(period, 10) + " " + more
}

// TitleOf returns the period whose set a group plays; -1: it plays none.
func TitleOf(group string) int64 {
	rest, ok := strings.CutPrefix(group, setGroup)
	if !ok {
		return -1
	}
	n, _, _ := strings.Cut(rest, " ")
	period, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return -1
	}
	return period
}

// TitleRuns returns the runs of a submission on the set of a later period, with
// the scores that count.
func (t *Tx) TitleRuns(submission string, period int64) ([]Run, error) {
	from, to := TitleGroup(period, ""), setGroup+strconv.FormatInt(period, 10)+"!"
	return t.runsWhere(`r.submission = $1 AND r.grp >= $2 AND r.grp < $3`, submission, from, to)
}

// PlaysSince returns the runs of a submission that were queued from a time on, with the scores
// that count: its own, its halves of pairs, and those on the sets of later periods.
func (t *Tx) PlaysSince(submission string, at time.Time) ([]Run, error) {
	return t.runsWhere(`r.submission = $1 AND r.created_at >= $2 AND substr(r.grp, 1, 7) <> 'appeal '`+noReplay, submission, micros(at))
}

// Period returns a period, or ErrNotFound.
func (t *Tx) Period(arena string, n int64) (SeedPeriod, error) {
	return one(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 AND n = $2`, arena, n)
}

// LastLevel returns the newest period before one whose set has a difficulty, or ErrNotFound.
func (t *Tx) LastLevel(arena string, n int64) (SeedPeriod, error) {
	return one(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 AND n < $2 AND difficulty <> '' ORDER BY n DESC LIMIT 1`, arena, n)
}

// Periods returns the periods of an arena, newest first.
func (t *Tx) Periods(arena string, limit int) ([]SeedPeriod, error) {
	return many(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 ORDER BY n DESC LIMIT $2`, arena, limit)
}

// DuePeriods returns periods that have ended and whose secret was not shown.
func (t *Tx) DuePeriods(now time.Time) ([]SeedPeriod, error) {
	return many(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE revealed_at = 0 AND closes <= $1 ORDER BY closes LIMIT 200`, micros(now))
}

// RevealPeriod marks a period's secret as shown; ErrNotFound if there is none, or it is shown already.
func (t *Tx) RevealPeriod(arena string, n int64, at time.Time) error {
	return t.exec1(`UPDATE seed_periods SET revealed_at = $1 WHERE arena = $2 AND n = $3 AND revealed_at = 0`, micros(at), arena, n)
}

// EndPeriod moves the end of a period to a time: its secret is lost, or blocks count it.
func (t *Tx) EndPeriod(arena string, n int64, at time.Time) error {
	return t.exec1(`UPDATE seed_periods SET closes = $1 WHERE arena = $2 AND n = $3`, micros(at), arena, n)
}

// SetBeacon writes what a submission's seeds come of.
func (t *Tx) SetBeacon(id string, b agon.Beacon) error {
	return t.exec1(`UPDATE submissions SET period = $1, beacon_rule = $2, beacon_block = $3, beacon = $4 WHERE id = $5`,
		b.Period, b.Rule, int64(b.Block), b.Hash, id)
}

// AwaitBeacons returns submissions that wait for their block, oldest first, without those
// of a period that has not begun: they may be many, and hold up no others.
func (t *Tx) AwaitBeacons(now time.Time, limit int) ([]Entry, error) {
	return many(t, scanEntry, `SELECT `+seatedColumns+` FROM submissions s WHERE s.beacon_rule = 'block' AND s.beacon = '' AND NOT EXISTS
		(SELECT 1 FROM seed_periods p WHERE p.arena = s.arena AND p.n = s.period AND p.opens > $1 AND p.turned_at = 0) ORDER BY s.seq LIMIT $2`, micros(now), limit)
}
