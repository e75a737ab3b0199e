package shopping

import (
	"context"
	"time"
)

// What tests outside the package use of it.
type (
	Floor = shopFloor
	Clock = raceClock
)

var KitOver = kitOver

// Advance turns the clock as its own goroutine does.
func (c *raceClock) Advance(ctx context.Context, now time.Time) error { return c.advance(ctx, now) }

// Closes is when the open race ends.
func (c *raceClock) Closes() time.Time { return c.closes }
