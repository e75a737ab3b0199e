package platform

import (
	"context"
	"time"

	"github.com/agon-arena/agon/engine/store"
)

// Keep remembers short-lived values in the store, so that they outlive this process and are
// the same at every server: sessions of browsers and of foreign sign-ins. Safe for concurrent use.
type Keep struct {
	p    *Platform
	what string
}

// Keep returns what is remembered for one purpose, named by a word.
func (p *Platform) Keep(what string) *Keep { return &Keep{p, what} }

// Put stores value under key; it is durable on return, and may be dropped after until.
func (k *Keep) Put(ctx context.Context, key string, value []byte, until time.Time) error {
	return k.p.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.Keep(k.what, key, value, until) })
}

// PutFew is Put, after which at most few keys have this value: those that end first go.
func (k *Keep) PutFew(ctx context.Context, key string, value []byte, until time.Time, few int) error {
	return k.p.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.KeepFew(k.what, key, value, until, few, k.p.now()) })
}

// Get returns the value, or nil when there is none (any more).
func (k *Keep) Get(ctx context.Context, key string) (value []byte, err error) {
	err = k.p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		value, err = tx.Kept(k.what, key, k.p.now())
		return err
	})
	return value, err
}

// Take returns the value and removes it. Of many at once exactly one gets it.
func (k *Keep) Take(ctx context.Context, key string) (value []byte, err error) {
	err = k.p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if value, err = tx.Kept(k.what, key, k.p.now()); err != nil || value == nil {
			return err
		}
		was, err := tx.Forget(k.what, key)
		if err == nil && !was { // another server's transaction was first
			value = nil
		}
		return err
	})
	return value, err
}
