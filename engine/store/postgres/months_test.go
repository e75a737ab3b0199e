package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
)

// plain puts the table that databases of before have in the place of the one with months.
const plain = `BEGIN; CREATE TABLE old (LIKE events); INSERT INTO old SELECT * FROM events; DROP TABLE events;
	ALTER TABLE old RENAME TO events; ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY (run, attempt, seq); COMMIT`

// tables lists the partitions of events, by name.
func tables(t *testing.T, at string) []string {
	t.Helper()
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var list string
	err = db.QueryRow(`SELECT coalesce(string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text), '') FROM pg_inherits WHERE inhparent = 'events'::regclass`).Scan(&list)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(list)
}

func insert(s *store.Store, run string, seq int64) error {
	return s.Write(context.Background(), func(tx *store.Tx) error {
		return tx.InsertEvent(agon.Event{Run: run, Attempt: 1, Seq: seq, At: time.Unix(1, 0), Type: "note"})
	})
}

func count(t *testing.T, s *store.Store, runs ...string) (n int) {
	t.Helper()
	err := s.Read(context.Background(), func(tx *store.Tx) error {
		for _, r := range runs {
			x, err := tx.TrailOf(r)
			if err != nil {
				return err
			}
			n += len(x.Events)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Events stand apart by the month in which their run was made.
func TestMonths(t *testing.T) {
	server := pgtest.Start(t)
	for name, fn := range map[string]func(*testing.T, *pgtest.Server){"new": newMonths, "many at once": manyMonths, "of before": oldMonths, "left alone": noMonths, "dropped": dropMonths} {
		t.Run(name, func(t *testing.T) { fn(t, server) })
	}
}

// A new database has months from the start, and makes none twice.
func newMonths(t *testing.T, server *pgtest.Server) {
	at := server.Database(t)
	s, _ := cluster(t, at)
	list := tables(t, at)
	if len(list) != ahead+2 || list[len(list)-1] != "events_rest" {
		t.Fatalf("partitions: %v", list)
	}
	run := uuid.Must(uuid.NewV7()).String()
	if err := errors.Join(insert(s, run, 1), insert(s, "r0", 1)); err != nil {
		t.Fatal(err)
	}
	if err := insert(s, run, 1); !errors.Is(err, store.ErrConflict) {
		t.Errorf("one number twice: %v", err)
	}
	cluster(t, at)
	if again := tables(t, at); !slices.Equal(again, list) {
		t.Errorf("opened again: %v", again)
	}
	server.Exec(t, at[strings.LastIndexByte(at, '/')+1:], `DO $$ BEGIN IF (SELECT count(*) FROM `+list[0]+`) <> 1 OR (SELECT count(*) FROM events_rest) <> 1 THEN RAISE 'elsewhere'; END IF; END $$`)
}

// Servers that start at the same moment over a new database make its months once.
func manyMonths(t *testing.T, server *pgtest.Server) {
	at := server.Database(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(t.Context(), at)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list := tables(t, at); len(list) != ahead+2 {
		t.Errorf("partitions: %v", list)
	}
}

// A database of before gets months while a server of before is at work: nothing is
// lost, and that server goes on.
func oldMonths(t *testing.T, server *pgtest.Server) {
	at := server.Database(t)
	s, _ := cluster(t, at)
	server.Exec(t, at[strings.LastIndexByte(at, '/')+1:], plain)
	run := uuid.Must(uuid.NewV7()).String()
	wrote := make(chan struct{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var n int64
	wg.Go(func() {
		for n = 1; ; n++ {
			if err := insert(s, run, n); err != nil {
				t.Errorf("beside the change: %v", err)
				return
			}
			if n == 50 {
				close(wrote)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-wrote
	next, _ := cluster(t, at)
	close(stop)
	wg.Wait()
	if list := tables(t, at); !slices.Contains(list, "events_before") || len(list) != 3 {
		t.Errorf("partitions: %v", list)
	}
	if have := count(t, next, run); int64(have) != n {
		t.Errorf("%d events, %d were acknowledged", have, n)
	}
	if err := insert(s, run, n+1); err != nil {
		t.Errorf("the server of before: %v", err)
	}
}

// Ids of another form, and a table that somebody reads, leave the table as it is.
func noMonths(t *testing.T, server *pgtest.Server) {
	at := server.Database(t)
	s, _ := cluster(t, at)
	name := at[strings.LastIndexByte(at, '/')+1:]
	server.Exec(t, name, plain)
	if err := insert(s, "r0", 1); err != nil {
		t.Fatal(err)
	}
	cluster(t, at)
	if list := tables(t, at); len(list) != 0 {
		t.Errorf("with an id of another form: %v", list)
	}
	server.Exec(t, name, `TRUNCATE events`)
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reads, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reads.Exec(`SELECT * FROM events`); err != nil {
		t.Fatal(err)
	}
	cluster(t, at)
	if list := tables(t, at); len(list) != 0 {
		t.Errorf("while somebody reads: %v", list)
	}
	if err := errors.Join(reads.Rollback(), insert(s, "r0", 2)); err != nil {
		t.Fatal(err)
	}
}

// A month goes at once when all of its events are archived, and not before; what is
// reported later has a place.
func dropMonths(t *testing.T, server *pgtest.Server) {
	at := server.Database(t)
	s, _ := cluster(t, at)
	var runs []string
	for i := range 3 {
		runs = append(runs, uuid.Must(uuid.NewV7()).String())
		if err := errors.Join(insert(s, runs[i], 1), insert(s, runs[i], 2)); err != nil {
			t.Fatal(err)
		}
	}
	archive := func(list ...string) {
		t.Helper()
		err := s.Write(context.Background(), func(tx *store.Tx) error {
			var notes []store.ArchivedRun
			for _, r := range list {
				notes = append(notes, store.ArchivedRun{Run: r, File: "f", Events: 2})
			}
			return tx.PutArchive(store.Archived{File: agon.Digest(fmt.Sprint("f", len(list)))}, notes)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	drop := func(before time.Time) int {
		t.Helper()
		n, err := s.DropMonths(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	month := tables(t, at)[0]
	made := time.Unix(uuid.MustParse(runs[0]).Time().UnixTime()).UTC()
	later := time.Date(made.Year(), made.Month()+1, 2, 0, 0, 0, 0, time.UTC)
	archive(runs[:2]...)
	if n := drop(later); n != 0 || count(t, s, runs...) != 6 {
		t.Fatalf("%d months with rows that are not archived are dropped", n)
	}
	archive(runs[2])
	if n := drop(time.Unix(1, 0)); n != 0 {
		t.Errorf("%d months that have not ended are dropped", n)
	}
	if n := drop(later); n != 1 || count(t, s, runs...) != 0 || slices.Contains(tables(t, at), month) {
		t.Errorf("%d months dropped, %d rows, %v", n, count(t, s, runs...), tables(t, at))
	}
	err := s.Write(context.Background(), func(tx *store.Tx) error {
		left, err := tx.UnclearedRuns(10)
		if len(left) != 3 {
			t.Errorf("receipts to clear: %+v", left)
		}
		for _, x := range left {
			cleared, cerr := tx.ClearArchived(x.Run)
			if !cleared || cerr != nil {
				t.Errorf("not cleared: %v", cerr)
			}
		}
		return err
	})
	if err := errors.Join(err, insert(s, runs[0], 3)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, runs[0]); n != 1 {
		t.Errorf("a late event: %d rows", n)
	}
	cluster(t, at) // months go on after it
}
