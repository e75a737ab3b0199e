package web

import (
	"sync"
	"time"
)

// cache keeps pages that all anonymous readers see alike for a moment, so that
// a crowd costs one rendering a second and page.
type cache struct {
	now func() time.Time
	mu  sync.Mutex
	at  map[string]*cached
}

type cached struct {
	once  sync.Once
	until time.Time
	body  []byte
	err   error
}

const (
	cacheFor  = time.Second
	cacheSize = 256
)

func newCache(now func() time.Time) *cache { return &cache{now: now, at: map[string]*cached{}} }

// get returns the page of key, made by fill unless a fresh one is there. Those
// who ask while it is made wait for it.
func (c *cache) get(key string, fill func() ([]byte, error)) ([]byte, error) {
	now := c.now()
	c.mu.Lock()
	e := c.at[key]
	if e == nil || !now.Before(e.until) {
		if len(c.at) >= cacheSize {
			clear(c.at)
		}
		e = &cached{until: now.Add(cacheFor)}
		c.at[key] = e
	}
	c.mu.Unlock()
	e.once.Do(func() { e.body, e.err = fill() })
	return e.body, e.err
}
