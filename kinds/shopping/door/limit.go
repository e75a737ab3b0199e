package door

import (
	"maps"
	"sync"
	"time"
)

// Rate of ORO's proxy (spec/oro.md 3.1): so many requests a second of one client, and
// so many more at once. There a client is a sandbox, here a problem's session.
const (
	perSecond  = 30
	burst      = 50
	maxClients = 10_000 // that are remembered
)

// Limiter is nginx's: what a client has asked for runs off at perSecond, and what would
// bring it over burst is refused at once.
type Limiter struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[string]filled // guarded by mu
}

// filled is what has not run off of a client's requests.
type filled struct {
	at     time.Time
	excess float64
}

func (f filled) left(now time.Time) float64 {
	return max(0, f.excess-perSecond*max(0, now.Sub(f.at).Seconds()))
}

// NewLimiter counts from nothing, on the given clock.
func NewLimiter(now func() time.Time) *Limiter {
	return &Limiter{now: now, clients: map[string]filled{}}
}

// Allow counts a request of a client, and reports whether it may go on.
func (l *Limiter) Allow(client string) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	f, known := l.clients[client]
	if !known {
		if len(l.clients) >= maxClients {
			maps.DeleteFunc(l.clients, func(_ string, f filled) bool { return f.left(now) == 0 })
		}
		l.clients[client] = filled{at: now}
		return true
	}
	e := f.left(now) + 1
	if e > burst {
		return false
	}
	l.clients[client] = filled{now, e}
	return true
}
