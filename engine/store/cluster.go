package store

import (
	"context"
	"errors"
	"time"
)

// ErrDeposed is returned by writes of a server that has lost its lead: another
// may lead already, and has a higher term.
var ErrDeposed = errors.New("this server does not lead any more")

// Leader is who leads the servers of a store.
type Leader struct {
	Term    int64  // grows with each leader; 0: there was none yet
	Address string // URL at which the other servers reach it
	Data    string // names the data directory that it leads with
}

// Term is the time in which one server leads. Lost is closed when it is over,
// because Resign was called or the connection that holds the lead broke.
type Term struct {
	Leader
	Lost   <-chan struct{}
	Resign func()
}

// Cluster is what an Engine has whose rows several servers share. Safe for
// concurrent use.
type Cluster interface {
	// Lead makes this process the leader where there is none; nil: another leads.
	// From then on each of its writes is kept only while its term is the newest,
	// and is ErrDeposed otherwise, for good: who would lead again opens the store again.
	Lead(ctx context.Context, address, data string) (*Term, error)
	// Leader reads who was the last to lead.
	Leader(ctx context.Context) (Leader, error)
	// Tell sends news to the other processes. It does not wait, and news may be
	// lost where the connection breaks: Hear says so.
	Tell(news string)
	// Hear calls heard, one call at a time, with what other processes tell, and
	// with "" where some news may have been lost. It returns when ctx ends.
	Hear(ctx context.Context, heard func(news string))
	// Once records a word until a time and reports whether it is new to all
	// processes. Unlike a row it may be forgotten when the server crashes.
	Once(ctx context.Context, word string, until time.Time) (fresh bool, err error)
}

// Cluster returns the engine's, if other servers may share its rows.
func (s *Store) Cluster() (Cluster, bool) {
	c, ok := s.e.(Cluster)
	return c, ok
}
