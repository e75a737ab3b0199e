package store

import (
	"time"

	"github.com/agon-arena/agon"
)

// SeedPeriod is a set period of an arena's seeds.
type SeedPeriod struct {
	Arena      string
	N          int64 // from 0
	Opens      time.Time
	Closes     time.Time // the secret may be shown from here
	Secret     string    // hex
	Commitment agon.Digest
	RevealedAt time.Time // zero: the secret has not been shown
}

const periodColumns = `arena, n, opens, closes, secret, commitment, revealed_at`

func scanPeriod(r scanner) (s SeedPeriod, err error) {
	var opens, closes, revealed int64
	err = r.Scan(&s.Arena, &s.N, &opens, &closes, &s.Secret, &s.Commitment, &revealed)
	s.Opens, s.Closes = fromMicros(opens), fromMicros(closes)
	if revealed != 0 {
		s.RevealedAt = fromMicros(revealed)
	}
	return s, err
}

// InsertPeriod stores a period; ErrConflict if there is one of its number.
func (t *Tx) InsertPeriod(s SeedPeriod) error {
	_, err := t.exec(`INSERT INTO seed_periods (arena, n, opens, closes, secret, commitment) VALUES ($1, $2, $3, $4, $5, $6)`,
		s.Arena, s.N, micros(s.Opens), micros(s.Closes), s.Secret, string(s.Commitment))
	return err
}

// Period returns a period, or ErrNotFound.
func (t *Tx) Period(arena string, n int64) (SeedPeriod, error) {
	return one(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 AND n = $2`, arena, n)
}

// Periods returns the periods of an arena, newest first.
func (t *Tx) Periods(arena string, limit int) ([]SeedPeriod, error) {
	return many(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE arena = $1 ORDER BY n DESC LIMIT $2`, arena, limit)
}

// DuePeriods returns periods that have ended and whose secret was not shown.
func (t *Tx) DuePeriods(now time.Time) ([]SeedPeriod, error) {
	return many(t, scanPeriod, `SELECT `+periodColumns+` FROM seed_periods WHERE revealed_at = 0 AND closes <= $1 ORDER BY closes LIMIT 200`, micros(now))
}

// RevealPeriod marks a period's secret as shown; ErrConflict if it is already.
func (t *Tx) RevealPeriod(arena string, n int64, at time.Time) error {
	return t.exec1(`UPDATE seed_periods SET revealed_at = $1 WHERE arena = $2 AND n = $3 AND revealed_at = 0`, micros(at), arena, n)
}

// EndPeriod moves the end of a period, whose secret is lost, to a time.
func (t *Tx) EndPeriod(arena string, n int64, at time.Time) error {
	return t.exec1(`UPDATE seed_periods SET closes = $1 WHERE arena = $2 AND n = $3`, micros(at), arena, n)
}

// SetBeacon writes what a submission's seeds come of.
func (t *Tx) SetBeacon(id string, b agon.Beacon) error {
	return t.exec1(`UPDATE submissions SET period = $1, beacon_rule = $2, beacon_block = $3, beacon = $4 WHERE id = $5`,
		b.Period, b.Rule, int64(b.Block), b.Hash, id)
}

// AwaitBeacons returns submissions that wait for their block, oldest first.
func (t *Tx) AwaitBeacons(limit int) ([]Entry, error) {
	return many(t, scanEntry, `SELECT `+entryColumns+` FROM submissions WHERE beacon_rule = 'block' AND beacon = '' ORDER BY seq LIMIT $1`, limit)
}
