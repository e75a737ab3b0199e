package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
)

// cluster opens a store of a database and what it has for other servers.
func cluster(t *testing.T, at string) (*store.Store, store.Cluster) {
	t.Helper()
	s, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, ok := s.Cluster()
	if !ok {
		t.Fatal("a PostgreSQL store has no cluster")
	}
	return s, c
}

// note writes one row.
func note(s *store.Store, id string) error {
	return s.Write(context.Background(), func(tx *store.Tx) error {
		return tx.InsertNote(store.Note{Type: store.FactKey, ID: id, At: time.Unix(1, 0), Body: []byte(`{}`)})
	})
}

// One leads; who has lost the lead cannot write any more, though its process
// lives; the next has a higher term. Processes that never led write all the time.
func TestLead(t *testing.T) {
	server := pgtest.Start(t)
	at := server.Database(t)
	a, ca := cluster(t, at)
	b, cb := cluster(t, at)
	ctx := t.Context()
	first, err := ca.Lead(ctx, "http://a", "data")
	if err != nil || first == nil || first.Term != 1 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	if second, err := cb.Lead(ctx, "http://b", "data"); err != nil || second != nil {
		t.Fatalf("two lead: %+v, %v", second, err)
	}
	for i, s := range []*store.Store{a, b} {
		if err := note(s, fmt.Sprint("before ", i)); err != nil {
			t.Fatal(err)
		}
	}
	// The connection that holds the lock ends, as it does when a server loses its network.
	server.Exec(t, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = `+fmt.Sprint(leaderKey))
	<-first.Lost
	// The server tells its client first and gives the lock back then.
	server.Exec(t, at[strings.LastIndexByte(at, '/')+1:], fmt.Sprintf(`SELECT pg_advisory_lock(%d), pg_advisory_unlock(%d)`, leaderKey, leaderKey))
	second, err := cb.Lead(ctx, "http://b", "data")
	if err != nil || second == nil || second.Term != 2 {
		t.Fatalf("second: %+v, %v", second, err)
	}
	if err := note(a, "deposed"); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a leader whose term is over writes: %v", err)
	}
	if err := note(b, "after"); err != nil {
		t.Error(err)
	}
	if err := a.Read(ctx, func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a leader whose term is over reads: %v", err)
	}
	if l, err := cb.Leader(ctx); err != nil || l != (store.Leader{Term: 2, Address: "http://b", Data: "data"}) {
		t.Errorf("leader %+v, %v", l, err)
	}
	second.Resign()
	if again, err := ca.Lead(ctx, "http://a", "data"); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("what the process remembers of its first term is old, and it leads again: %+v, %v", again, err)
	}
	c, cc := cluster(t, at)
	if third, err := cc.Lead(ctx, "http://a", "data"); err != nil || third == nil || third.Term != 3 {
		t.Fatalf("third: %+v, %v", third, err)
	}
	if err := note(c, "leads again"); err != nil {
		t.Error(err)
	}
}

// News reach the other process once each and never the one that tells; after a
// broken connection it is told to look at everything.
func TestNews(t *testing.T) {
	server := pgtest.Start(t)
	at := server.Database(t)
	_, ca := cluster(t, at)
	_, cb := cluster(t, at)
	heardA, heardB := make(chan string, 10000), make(chan string, 10000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	for _, x := range []struct {
		c   store.Cluster
		out chan string
	}{{ca, heardA}, {cb, heardB}} {
		go func() {
			x.c.Hear(ctx, func(s string) { x.out <- s })
			ended <- struct{}{}
		}()
	}
	defer func() { cancel(); <-ended; <-ended }()
	for _, out := range []chan string{heardA, heardB} {
		if s := <-out; s != "" {
			t.Fatalf("the first word is %q", s)
		}
	}
	const many = 500
	want := map[string]bool{}
	for i := range many {
		w := fmt.Sprintf("run %d \" %s", i, strings.Repeat("é", 40))
		want[w] = true
		ca.Tell(w)
	}
	for range many {
		w := <-heardB
		if !want[w] {
			t.Fatalf("heard %q, which nobody told or which came before", w)
		}
		delete(want, w)
	}
	server.Exec(t, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`)
	for _, out := range []chan string{heardA, heardB} {
		if s := <-out; s != "" {
			t.Errorf("after a broken connection the first word is %q", s)
		}
	}
}

// A word is new once, whichever process asks.
func TestOnce(t *testing.T) {
	at := pgtest.Start(t).Database(t)
	_, ca := cluster(t, at)
	_, cb := cluster(t, at)
	until := time.Now().Add(time.Minute)
	for i, c := range []store.Cluster{ca, cb, ca} {
		fresh, err := c.Once(t.Context(), "nonce", until)
		if err != nil || fresh != (i == 0) {
			t.Errorf("asked for the %d. time: %v, %v", i+1, fresh, err)
		}
	}
	// Who comes with a clock that lags behind the database's is told the same.
	for i := range 3 {
		if fresh, err := cb.Once(t.Context(), fmt.Sprint("late ", i), time.Now().Add(-4*time.Minute)); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}
	if fresh, err := ca.Once(t.Context(), "late 0", time.Now().Add(-4*time.Minute)); err != nil || fresh {
		t.Errorf("a word that a lagging clock takes for good: %v, %v", fresh, err)
	}
	for i := range 3 { // what is long over goes with those that come
		if fresh, err := cb.Once(t.Context(), fmt.Sprint("old ", i), time.Now().Add(-6*time.Minute)); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}
	if fresh, err := ca.Once(t.Context(), "old 0", until); err != nil || !fresh {
		t.Errorf("a word that is over: %v, %v", fresh, err)
	}
}
