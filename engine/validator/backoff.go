package validator

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// backoff is how long a worker waits for a platform that does not answer, or not well:
// longer after each error in a row. The zero value is not ready: set first.
type backoff struct {
	first time.Duration // after one error
	n     int           // errors in a row
}

const (
	// maxBackoff bounds a pause before its jitter, and is that of a hotkey that was banned.
	maxBackoff = 5 * time.Minute
	// jitter is how far a pause may be off, so that validators do not come back at once.
	jitter = 0.2
)

// after is the pause after err, which is not nil.
func (b *backoff) after(err error) time.Duration {
	d := maxBackoff
	if !banned(err) {
		if b.n < 16 { // more would not fit the number
			d = min(b.first<<b.n, maxBackoff)
		}
		b.n++
	}
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // no secret
}

// answered notes that the platform answered as it should.
func (b *backoff) answered() { b.n = 0 }

// banned reports that a platform serves this hotkey no more, which may change.
func banned(err error) bool {
	e := (*agon.Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusForbidden && strings.Contains(strings.ToLower(e.Code+" "+e.Message), "banned")
}
