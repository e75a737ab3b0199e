// Package served holds replies that many readers see alike: made once for all who
// ask at the same moment, kept for a moment, compressed once.
package served

import (
	"errors"
	"sync"
	"time"
)

// Cache keeps replies for a moment, so that a crowd costs one rendering each. It
// holds at most 256 of them.
type Cache struct {
	now  func() time.Time
	life time.Duration
	mu   sync.Mutex
	at   map[string]*cached
}

type cached struct {
	once  sync.Once
	until time.Time
	doc   *Document
	err   error
}

const maxKept = 256

var errUnmade = errors.New("the reply could not be made")

// NewCache returns a cache that keeps replies for life.
func NewCache(now func() time.Time, life time.Duration) *Cache {
	return &Cache{now: now, life: life, at: map[string]*cached{}}
}

// Get returns the reply of key, made by fill unless a fresh one is there. Those
// who ask while it is made wait for it.
func (c *Cache) Get(key string, fill func() ([]byte, error)) (*Document, error) {
	now := c.now()
	c.mu.Lock()
	e := c.at[key]
	if e == nil || !now.Before(e.until) {
		if len(c.at) >= maxKept {
			clear(c.at)
		}
		e = &cached{until: now.Add(c.life)}
		c.at[key] = e
	}
	c.mu.Unlock()
	e.once.Do(func() {
		e.err = errUnmade // stays, where fill panics
		b, err := fill()
		e.doc, e.err = New(b), err
	})
	return e.doc, e.err
}
