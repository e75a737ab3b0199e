package store

import (
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// SawValidator notes that a validator serves an arena. Keep it rare: it is a write.
// gpus is a list in JSON. What is empty stays as it was.
func (t *Tx) SawValidator(arena, validator, driver, version, gpus string, at time.Time) error {
	err := t.put(`INSERT INTO seen (arena, validator, driver, version, gpus, at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (arena, validator) DO UPDATE SET
		gpus = CASE WHEN excluded.gpus = '' THEN seen.gpus ELSE excluded.gpus END,
		driver = CASE WHEN excluded.driver = '' THEN seen.driver ELSE excluded.driver END, version = CASE WHEN excluded.version = '' THEN seen.version ELSE excluded.version END, at = excluded.at`,
		arena, validator, plain.Storable(driver), plain.Storable(version), plain.Storable(gpus), micros(at))
	return err
}

// Serving counts the validators that were seen in an arena after a time.
func (t *Tx) Serving(arena string, after time.Time) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM seen WHERE arena = $1 AND at > $2`, arena, micros(after))
}

// LastDriver returns the box driver that was named last, or "".
func (t *Tx) LastDriver() (string, error) {
	s, err := one(t, scanString, `SELECT driver FROM seen WHERE driver <> '' ORDER BY at DESC LIMIT 1`)
	if err == ErrNotFound { //nolint:errorlint // one returns the sentinel itself
		return "", nil
	}
	return s, err
}

// What a blob is part of.
const (
	RefCode     = "code"     // owner: submission
	RefTask     = "task"     // owner: arena
	RefEvidence = "evidence" // owner: run
	RefOutput   = "output"   // owner: run; what boxes printed, by which nothing is judged
)

// BlobRef says what a blob is part of. Rights to read bytes follow from it.
type BlobRef struct {
	Digest agon.Digest
	What   string
	Owner  string
	Hidden bool // part of a hidden task
}

// OfRun reports whether the owner is a run.
func (r BlobRef) OfRun() bool { return r.What == RefEvidence || r.What == RefOutput }

// AddRef stores a reference. A task that becomes hidden or public updates it.
func (t *Tx) AddRef(r BlobRef) error {
	err := t.put(`INSERT INTO blob_refs (digest, what, owner, hidden) VALUES ($1, $2, $3, $4)
		ON CONFLICT (digest, what, owner) DO UPDATE SET hidden = excluded.hidden`,
		string(r.Digest), r.What, r.Owner, bit(r.Hidden))
	return err
}

// Refs returns what a blob is part of: open tasks first, then the newest, at
// most 500 things. Small bytes can be part of very many.
func (t *Tx) Refs(d agon.Digest) ([]BlobRef, error) {
	return many(t, func(r scanner) (x BlobRef, err error) {
		var hidden int64
		err = r.Scan(&x.Digest, &x.What, &x.Owner, &hidden)
		x.Hidden = hidden != 0
		return x, err
	}, `SELECT digest, what, owner, hidden FROM blob_refs WHERE digest = $1
		ORDER BY CASE WHEN what = 'task' THEN hidden ELSE 2 END, owner DESC LIMIT 500`, string(d))
}

// noFloor is the nonce of the row that holds, by scheme, until when forgotten
// nonces would have been good. No request has it: it is not a hotkey's.
const noFloor = "forgotten"

// UseNonce records a nonce; false if it was used before, or may have been: a
// clock that went forward and back again makes forgotten requests new.
func (t *Tx) UseNonce(scheme, hotkey, nonce string, until time.Time) (bool, error) {
	n, err := t.exec(insertNonce, scheme, hotkey, nonce, micros(until))
	return n == 1, err
}

// PutNonce is UseNonce for a nonce that is expected to be new: it may be put off, and says
// true meanwhile. Where it was used before, the transaction's function runs again and hears so.
func (t *Tx) PutNonce(scheme, hotkey, nonce string, until time.Time) (bool, error) {
	if t.later(1, insertNonce, []any{scheme, hotkey, nonce, micros(until)}) {
		return true, nil
	}
	return t.UseNonce(scheme, hotkey, nonce, until)
}

const insertNonce = `INSERT INTO nonces (scheme, hotkey, nonce, until)
	SELECT $1, $2, $3, CAST($4 AS bigint) WHERE NOT EXISTS (SELECT 1 FROM nonces WHERE scheme = $1 AND hotkey = '' AND nonce = '` + noFloor + `' AND until >= $4)
	ON CONFLICT (scheme, hotkey, nonce) DO NOTHING`

// PurgeNonces forgets at most limit nonces whose time is over, and returns how many.
func (t *Tx) PurgeNonces(now time.Time, limit int) (int64, error) {
	old, err := one(t, scanInt, `SELECT coalesce(max(until), 0) FROM (SELECT until FROM nonces WHERE until < $1 AND hotkey <> '' ORDER BY until LIMIT $2) AS old`,
		micros(now), int64(limit))
	if err != nil || old == 0 {
		return 0, err
	}
	if _, err := t.exec(`INSERT INTO nonces (scheme, hotkey, nonce, until)
		SELECT scheme, '', '`+noFloor+`', max(until) FROM nonces WHERE until <= $1 AND hotkey <> '' GROUP BY scheme
		ON CONFLICT (scheme, hotkey, nonce) DO UPDATE SET until = CASE WHEN excluded.until > nonces.until THEN excluded.until ELSE nonces.until END`, old); err != nil {
		return 0, err
	}
	return t.exec(`DELETE FROM nonces WHERE until <= $1 AND hotkey <> ''`, old)
}

// Scopes of counters.
const (
	ScopeArena     = "arena"     // keys: scored, failed, cancelled, fault.<fault>
	ScopeValidator = "validator" // keys: fault.<fault>
	ScopeProvider  = "provider"  // keys: fault.<fault>
)

// Count adds one to a counter.
func (t *Tx) Count(scope, name, key string) error {
	err := t.put(`INSERT INTO counters (scope, name, key, n) VALUES ($1, $2, $3, 1)
		ON CONFLICT (scope, name, key) DO UPDATE SET n = counters.n + 1`, scope, name, key)
	return err
}

// Counter is one counted thing.
type Counter struct {
	Scope, Name, Key string
	N                int64
}

// Counters returns the counters of a scope, of all names or of one.
func (t *Tx) Counters(scope, name string) ([]Counter, error) {
	return many(t, func(r scanner) (c Counter, err error) {
		err = r.Scan(&c.Scope, &c.Name, &c.Key, &c.N)
		return c, err
	}, `SELECT scope, name, key, n FROM counters WHERE scope = $1 AND ($2 = '' OR name = $2) ORDER BY name, key`, scope, name)
}
