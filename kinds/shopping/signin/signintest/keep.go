// Package signintest has what tests of ORO's sign-in need.
package signintest

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Keep is a signin.Keep in memory. Safe for concurrent use.
type Keep struct {
	now   func() time.Time
	mu    sync.Mutex
	items map[string]kept // guarded by mu
}

type kept struct {
	value []byte
	until time.Time
}

// New makes an empty one on a clock.
func New(now func() time.Time) *Keep { return &Keep{now: now, items: map[string]kept{}} }

// Put implements signin.Keep, but for durability.
func (k *Keep) Put(_ context.Context, key string, value []byte, until time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.items[key] = kept{slices.Clone(value), until}
	return nil
}

// Get implements signin.Keep.
func (k *Keep) Get(_ context.Context, key string) ([]byte, error) { return k.read(key, false) }

// Take implements signin.Keep.
func (k *Keep) Take(_ context.Context, key string) ([]byte, error) { return k.read(key, true) }

func (k *Keep) read(key string, remove bool) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	item, ok := k.items[key]
	if remove {
		delete(k.items, key)
	}
	if !ok || item.until.Before(k.now()) {
		return nil, nil
	}
	return item.value, nil
}
