package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// keptID is what a key is known by: it may be a secret.
func keptID(what, key string) string {
	sum := sha256.Sum256([]byte(what + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

// Keep remembers a value under a key until a time, in place of an earlier one. The key
// itself is not stored.
func (t *Tx) Keep(what, key string, value []byte, until time.Time) error {
	return t.put1(`INSERT INTO kept (what, id, value, until) VALUES ($1, $2, $3, $4)
		ON CONFLICT (what, id) DO UPDATE SET value = excluded.value, until = excluded.until`,
		what, keptID(what, key), base64.RawStdEncoding.EncodeToString(value), micros(until))
}

// KeepFew is Keep, after which at most few keys have this value: those that end first are
// dropped for it.
func (t *Tx) KeepFew(what, key string, value []byte, until time.Time, few int, now time.Time) error {
	text := base64.RawStdEncoding.EncodeToString(value)
	ids, err := many(t, func(r scanner) (s string, err error) { err = r.Scan(&s); return s, err },
		`SELECT id FROM kept WHERE what = $1 AND value = $2 AND until >= $3 AND id <> $4 ORDER BY until DESC, id`, what, text, micros(now), keptID(what, key))
	if err != nil {
		return err
	}
	for _, id := range ids[min(len(ids), max(few-1, 0)):] {
		if _, err := t.exec(`DELETE FROM kept WHERE what = $1 AND id = $2`, what, id); err != nil {
			return err
		}
	}
	return t.Keep(what, key, value, until)
}

// Kept returns a value that is kept, nil where there is none (any more).
func (t *Tx) Kept(what, key string, now time.Time) ([]byte, error) {
	text, err := one(t, func(r scanner) (s string, err error) { err = r.Scan(&s); return s, err },
		`SELECT value FROM kept WHERE what = $1 AND id = $2 AND until >= $3`, what, keptID(what, key), micros(now))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("read what is kept for %s: %w", what, err)
	}
	return b, nil
}

// Forget removes what is kept under a key, and reports whether anything was.
func (t *Tx) Forget(what, key string) (was bool, err error) {
	n, err := t.exec(`DELETE FROM kept WHERE what = $1 AND id = $2`, what, keptID(what, key))
	return n == 1, err
}

// PurgeKept removes at most limit values whose time is over, and returns how many.
func (t *Tx) PurgeKept(now time.Time, limit int) (int64, error) {
	return t.exec(`DELETE FROM kept WHERE (what, id) IN (SELECT what, id FROM kept WHERE until < $1 ORDER BY until LIMIT $2)`, micros(now), int64(limit))
}
