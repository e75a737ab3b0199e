package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
)

const (
	// checkpointAt is how many pages of 4 KiB the write-ahead log holds before they are
	// copied into the database.
	checkpointAt = 4000
	// fewPages may be left for the writer, which copies them in a few milliseconds.
	fewPages = 400
	// everyGroup is how many small groups pass between two looks at the log.
	everyGroup = 16
	// writersOwn is a log at which SQLite has the writer copy all: the checkpointer is late.
	writersOwn = 40_000
)

// checkpointer copies the write-ahead log into the database beside the writer. Copied by
// the writer, as SQLite does it unasked, 4000 pages hold up a commit for 15 to 60 ms. The
// log starts over only when all of it is copied and no reader needs it, and a writer that goes
// on is never caught up with: it copies the last few pages itself, between two groups.
type checkpointer struct {
	conn *sql.Conn
	poke chan struct{}
	done chan struct{}
	due  atomic.Bool // few pages are left: the writer copies them

	groups int // committed; owned by the writer
}

func newCheckpointer(conn *sql.Conn) *checkpointer {
	c := &checkpointer{conn: conn, poke: make(chan struct{}, 1), done: make(chan struct{})}
	go c.loop()
	return c
}

// committed says that the log has grown by a group of so many jobs. A look takes some
// microseconds of processor: not each of many small groups is worth one.
func (c *checkpointer) committed(jobs int) {
	if c.groups++; jobs < everyGroup && c.groups%everyGroup != 0 {
		return
	}
	select {
	case c.poke <- struct{}{}:
	default: // it has not looked since
	}
}

func (c *checkpointer) loop() {
	defer close(c.done)
	for range c.poke {
		pages, left, err := checkpoint(c.conn, "NOOP")
		if err == nil && pages >= checkpointAt && left > fewPages {
			_, left, err = checkpoint(c.conn, "PASSIVE")
		}
		// What could not be copied stays in the log: the next commit asks again.
		c.due.Store(err == nil && pages >= checkpointAt && left <= fewPages)
	}
}

// finish copies the last pages, if the writer is asked to: the next write starts the log
// over, unless a reader needs it. Where it fails, the log goes on as it is, and the next
// commit asks again.
func (c *checkpointer) finish(writer *sql.Conn) {
	if !c.due.Swap(false) {
		return
	}
	if pages, _, err := checkpoint(writer, "NOOP"); err != nil || pages < checkpointAt {
		return // it has started over since
	}
	_, _, _ = checkpoint(writer, "PASSIVE")
}

// close ends c, which is not told of commits any more.
func (c *checkpointer) close() error {
	close(c.poke)
	<-c.done
	return c.conn.Close()
}

// checkpoint copies what the log holds, as far as no reader is in the way; with NOOP it
// only looks. It returns how many pages the log has and how many of them are not copied.
func checkpoint(conn *sql.Conn, mode string) (pages, left int64, err error) {
	var busy, copied int64
	err = conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &pages, &copied)
	return pages, pages - copied, err
}

// auto is the pragma for the log at which SQLite copies unasked, beside a server as ever.
func auto(o Options) string {
	if o.beside {
		return fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAt)
	}
	return fmt.Sprintf("wal_autocheckpoint(%d)", writersOwn)
}
