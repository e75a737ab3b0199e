package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agon-arena/agon/engine/store"
)

const (
	// leaderKey is the advisory lock of who leads the servers of a database.
	leaderKey = lockKey + 1
	// fenced is the SQLSTATE that the fence raises: a class of our own.
	fenced = "AG001"
	// checkLead is how often a leader asks whether its connection still holds the
	// lock, and how long it waits for the answer.
	checkLead = time.Second
	// channel is that of news.
	channel = "agon_news"
	// maxNews bounds a notification; the server takes less than 8,000 bytes.
	maxNews = 7000
	// gather is how long news is collected before it is sent.
	gather = 3 * time.Millisecond
	// maxPending bounds the news that wait: beyond it the others are sent one word, "look".
	maxPending = 2000
	// keepOnce is how long a word outlives its time: the clocks of the database's machine and of
	// those who say until when may differ by as much, and nothing is new twice.
	keepOnce = "5 minutes"
)

var _ store.Cluster = (*engine)(nil)

// schema of what only servers of this driver have.
var clusterSchema = []string{
	`CREATE TABLE IF NOT EXISTS store_leader (one bigint PRIMARY KEY, term bigint NOT NULL, address text NOT NULL, data text NOT NULL)`,
	`INSERT INTO store_leader (one, term, address, data) VALUES (1, 0, '', '') ON CONFLICT (one) DO NOTHING`,
	`CREATE UNLOGGED TABLE IF NOT EXISTS store_once (word text PRIMARY KEY, until timestamptz NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS store_once_until ON store_once (until)`,
}

// fence is the statement that ends a group of a leader whose term is over. The
// groups of all processes follow each other, so a new leader's term is seen by
// every group after the one that made it.
func fence(term int64) string {
	return fmt.Sprintf(`DO $$ BEGIN IF (SELECT term FROM store_leader WHERE one = 1) <> %d THEN RAISE EXCEPTION 'deposed' USING ERRCODE = '%s'; END IF; END $$`, term, fenced)
}

// Lead implements store.Cluster.
func (e *engine) Lead(ctx context.Context, address, data string) (*store.Term, error) {
	if e.term.Load() > 0 {
		return nil, fmt.Errorf("lead again: %w", store.ErrDeposed)
	}
	conn, err := pgx.ConnectConfig(ctx, e.conf.Copy())
	if err != nil {
		return nil, fmt.Errorf("lead: %w", err)
	}
	quit := func() {
		ctx, cancel := context.WithTimeout(context.Background(), checkLead)
		defer cancel()
		_ = conn.Close(ctx) // the lock goes with it
	}
	var got bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, leaderKey).Scan(&got); err != nil || !got {
		quit()
		if err != nil {
			err = fmt.Errorf("lead: %w", err)
		}
		return nil, err
	}
	t := &store.Term{Leader: store.Leader{Address: address, Data: data}}
	// Under the writers' lock: what the leader before had begun is over.
	err = e.queue.Write(ctx, func(ctx context.Context, q store.Querier) error {
		return q.QueryRowContext(ctx, `UPDATE store_leader SET term = term + 1, address = $1, data = $2 WHERE one = 1 RETURNING term`, address, data).Scan(&t.Term)
	})
	if err != nil {
		quit()
		return nil, fmt.Errorf("lead: %w", err)
	}
	e.term.Store(t.Term)
	lost, stop := make(chan struct{}), make(chan struct{})
	t.Lost = lost
	t.Resign = sync.OnceFunc(func() { close(stop); <-lost })
	go func() {
		defer close(lost)
		defer quit()
		e.holdLead(conn, stop)
		e.lost.Store(true)
		e.end()
	}()
	return t, nil
}

// holdLead returns when the connection that holds the lead breaks, or on stop.
func (e *engine) holdLead(conn *pgx.Conn, stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for ctx.Err() == nil {
		// Waiting for a notification reads from the connection: its end is seen at once.
		wait, done := context.WithTimeout(ctx, checkLead)
		_, err := conn.WaitForNotification(wait)
		late := errors.Is(err, context.DeadlineExceeded)
		done()
		if err != nil && !late {
			return
		}
		ask, done := context.WithTimeout(ctx, checkLead)
		_, err = conn.Exec(ask, `SELECT 1`)
		done()
		if err != nil {
			return
		}
	}
}

// Leader implements store.Cluster.
func (e *engine) Leader(ctx context.Context) (l store.Leader, err error) {
	ctx, cancel := context.WithTimeout(ctx, away)
	defer cancel()
	err = e.db.QueryRowContext(ctx, `SELECT term, address, data FROM store_leader WHERE one = 1`).Scan(&l.Term, &l.Address, &l.Data)
	if err != nil {
		return l, fmt.Errorf("read leader: %w", err)
	}
	return l, nil
}

// news is what this process tells the others.
type news struct {
	me string // says who tells: nobody hears himself

	mu      sync.Mutex
	pending map[string]bool // guarded by mu
	order   []string        // guarded by mu
	wake    chan struct{}   // buffered: 1
	done    chan struct{}   // closed when the sender has ended
}

func newNews() *news {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return &news{me: hex.EncodeToString(b[:]), pending: map[string]bool{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Tell implements store.Cluster.
func (e *engine) Tell(word string) {
	n := e.news
	n.mu.Lock()
	if !n.pending[word] {
		if len(n.order) >= maxPending {
			clear(n.pending)
			n.order = n.order[:0]
			word = ""
		}
		n.pending[word] = true
		n.order = append(n.order, word)
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, as one payload at most maxNews long; "" for none.
func (n *news) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) == 0 {
		return ""
	}
	list, size := []string{n.me}, len(n.me)+4
	for len(n.order) > 0 {
		w := n.order[0]
		if len(w) > 200 {
			w = "" // no id is so long: say only that something changed
		}
		if size += 3 + 6*len(w); size > maxNews && len(list) > 1 { // a character is at most 6 in JSON
			break
		}
		list = append(list, w)
		delete(n.pending, n.order[0])
		n.order = n.order[1:]
	}
	b, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(b)
}

// sendNews sends what is told until the engine closes.
func (e *engine) sendNews() {
	defer close(e.news.done)
	for {
		select {
		case <-e.over.Done():
			return
		case <-e.news.wake:
		}
		time.Sleep(gather) // a burst is one notification
		for p := e.news.take(); p != ""; p = e.news.take() {
			ctx, cancel := context.WithTimeout(context.Background(), checkLead)
			_, err := e.db.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, p)
			cancel()
			if err != nil {
				break // who hears looks by himself after a while
			}
		}
	}
}

// Hear implements store.Cluster.
func (e *engine) Hear(ctx context.Context, heard func(string)) {
	for ctx.Err() == nil {
		_ = e.hear(ctx, heard) // a broken connection is made again
		select {
		case <-ctx.Done():
		case <-time.After(5 * firstPause):
		}
	}
}

func (e *engine) hear(ctx context.Context, heard func(string)) error {
	conn, err := pgx.ConnectConfig(ctx, e.conf.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), checkLead)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return err
	}
	heard("") // whatever was told before
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		var list []string
		if err := json.Unmarshal([]byte(n.Payload), &list); err != nil || len(list) == 0 {
			heard("")
			continue
		}
		if list[0] == e.news.me {
			continue
		}
		for _, w := range list[1:] {
			heard(w)
		}
	}
}

// Once implements store.Cluster.
func (e *engine) Once(ctx context.Context, word string, until time.Time) (fresh bool, err error) {
	err = retry(ctx, e.over.Done(), func() error {
		tx, err := e.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a commit it does nothing
		// Nothing is owed to the disk: a crash empties the table.
		if _, err := tx.ExecContext(ctx, `SET LOCAL synchronous_commit = off`); err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, `INSERT INTO store_once (word, until) VALUES ($1, $2) ON CONFLICT (word) DO NOTHING`, word, until.UTC())
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		fresh = n == 1
		// A few that are over go with each that comes; others that do the same are left alone.
		if _, err := tx.ExecContext(ctx, `DELETE FROM store_once WHERE word IN (SELECT word FROM store_once WHERE until < now() - interval '`+keepOnce+`' ORDER BY until LIMIT 4 FOR UPDATE SKIP LOCKED)`); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		return false, fmt.Errorf("record a word: %w", err)
	}
	return fresh, nil
}
