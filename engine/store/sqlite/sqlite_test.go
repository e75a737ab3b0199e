package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T, dir string) *store.Store {
		s, err := Open(context.Background(), filepath.Join(dir, "agon.db"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestDurability: the promise of Write rests on these settings.
func TestDurability(t *testing.T) {
	e, err := openEngine(context.Background(), filepath.Join(t.TempDir(), "a b?%#.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		if err := e.conn.QueryRowContext(context.Background(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", pragma, got, err, want)
		}
	}
	err = e.Read(context.Background(), func(ctx context.Context, q store.Querier) error {
		_, err := q.ExecContext(ctx, "CREATE TABLE x (a bigint)")
		return err
	})
	if err == nil {
		t.Error("a reader could write")
	}
}

func TestRefusesNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agon.db")
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE schema_version SET version = 999"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if _, err := Open(context.Background(), path); err == nil || !strings.Contains(err.Error(), "newer agon") {
		t.Fatalf("got %v, want a refusal", err)
	}
}

func TestOpenRefusesForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agon.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), path); err == nil {
		t.Fatal("no error")
	}
}

// TestHotQueriesUseTheQueueIndexes: what the queue asks all day may not read
// finished runs, however many there are.
func TestHotQueriesUseTheQueueIndexes(t *testing.T) {
	e, err := openEngine(context.Background(), filepath.Join(t.TempDir(), "agon.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &planner{engine: e, plans: map[string][]string{}}
	if err := store.Migrate(context.Background(), e, "integer PRIMARY KEY AUTOINCREMENT"); err != nil {
		t.Fatal(err)
	}
	s := store.New(p)
	defer s.Close()
	err = s.Read(context.Background(), func(tx *store.Tx) error {
		// Only the statements matter: on an empty store most find nothing.
		_, _ = tx.NextRun("a", store.Claimant{Validator: "v"})
		_, _ = tx.AnyQueued([]string{"a"})
		_, _ = tx.AnyRetry(time.Now())
		_, _ = tx.LiveOf("")
		_, _ = tx.AnyLive("s")
		_, _ = tx.LiveAttempt("r")
		_, _ = tx.FirstUndecided("a")
		_, _, _ = tx.Waiting("a")
		_, _ = tx.RunsOf("s")
		_, _ = tx.Overdue(p.now(), 10)
		_, _ = tx.Run("r")
		_, _ = tx.AttemptByLease("l")
		_, _ = tx.Lease("l")
		_, _ = tx.HasAttempt("s", "v")
		_, _ = tx.Counted([]store.Run{{}})
		_, _ = tx.JudgingsOfRuns([]store.Run{{}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.plans) < 15 {
		t.Fatalf("only %d statements were seen", len(p.plans))
	}
	for query, plan := range p.plans {
		for _, step := range plan {
			scan := strings.HasPrefix(step, "SCAN ") && !strings.HasPrefix(step, "SCAN CONSTANT ROW") && !strings.HasPrefix(step, "SCAN a USING COVERING INDEX sqlite_autoindex_arenas")
			live := strings.Contains(step, "attempts_held") || strings.Contains(step, "runs_deadline")
			if (scan && !live) || (strings.Contains(step, "TEMP B-TREE") && !strings.Contains(query, "s.task")) {
				t.Errorf("%s\n  %s", query, step)
			}
		}
	}
}

// TestHalfWayInAGroup: a job that fails or panics after it has written undoes
// itself alone, and its group is committed without it.
func TestHalfWayInAGroup(t *testing.T) {
	e, err := openEngine(context.Background(), filepath.Join(t.TempDir(), "agon.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx := t.Context()
	exec := func(q store.Querier, text string, args ...any) error {
		_, err := q.ExecContext(ctx, text, args...)
		return err
	}
	if err := e.Write(ctx, func(_ context.Context, q store.Querier) error {
		return exec(q, "CREATE TABLE x (a bigint PRIMARY KEY)")
	}); err != nil {
		t.Fatal(err)
	}
	odd := errors.New("odd")
	for _, bad := range []struct {
		name string
		fail func(q store.Querier) error
	}{
		{"an error", func(store.Querier) error { return odd }},
		{"a panic", func(store.Querier) error { panic(odd) }},
		{"a broken rule", func(q store.Querier) error { return exec(q, "INSERT INTO x (a) VALUES (0)") }},
		{"a table made", func(q store.Querier) error { return errors.Join(exec(q, "CREATE TABLE y (a bigint)"), odd) }},
	} {
		t.Run(bad.name, func(t *testing.T) {
			if err := e.Write(ctx, func(_ context.Context, q store.Querier) error {
				return errors.Join(exec(q, "DELETE FROM x"), exec(q, "INSERT INTO x (a) VALUES (0)"))
			}); err != nil {
				t.Fatal(err)
			}
			// The first job holds the writer until all others wait: they are one group.
			release, began := make(chan struct{}), make(chan struct{})
			errs := make([]error, 9)
			var wg sync.WaitGroup
			wg.Go(func() {
				errs[0] = e.Write(ctx, func(context.Context, store.Querier) error { close(began); <-release; return nil })
			})
			<-began
			for i := 1; i < len(errs); i++ {
				wg.Go(func() {
					defer func() {
						if p := recover(); p != nil {
							errs[i] = p.(error)
						}
					}()
					errs[i] = e.Write(ctx, func(_ context.Context, q store.Querier) error {
						if err := exec(q, "INSERT INTO x (a) VALUES ($1)", i); err != nil {
							return err
						}
						if i%4 == 0 {
							return bad.fail(q)
						}
						return nil
					})
				})
			}
			for e.queue.Waiting() < len(errs)-1 {
				runtime.Gosched()
			}
			close(release)
			wg.Wait()
			for i, err := range errs {
				if (err != nil) != (i > 0 && i%4 == 0) {
					t.Errorf("job %d: %v", i, err)
				}
			}
			var got []int64
			err := e.Read(ctx, func(_ context.Context, q store.Querier) error {
				rows, err := q.QueryContext(ctx, "SELECT a FROM x ORDER BY a")
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var a int64
					if err := rows.Scan(&a); err != nil {
						return err
					}
					got = append(got, a)
				}
				return rows.Err()
			})
			if want := []int64{0, 1, 2, 3, 5, 6, 7}; err != nil || !slices.Equal(got, want) {
				t.Errorf("kept %d, %v; want %d", got, err, want)
			}
			if err := e.Read(ctx, func(_ context.Context, q store.Querier) error {
				var n int
				return q.QueryRowContext(ctx, "SELECT count(*) FROM y").Scan(&n)
			}); err == nil {
				t.Error("a table of a failed job is there")
			}
		})
	}
}

// Another process may read and write beside the server: the server's count of commits
// and its facts are as if nobody had.
func TestOpenBeside(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "agon.db")
	if _, err := OpenBeside(ctx, path); err == nil {
		t.Error("a file was made")
	}
	s, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	ref := func(d string) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			return tx.AddRef(store.BlobRef{Digest: agon.Sum([]byte(d)), What: store.RefCode, Owner: d})
		}
	}
	if err := s.Write(ctx, ref("server")); err != nil {
		t.Fatal(err)
	}
	other, err := OpenBeside(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.Commits()
	if err := other.Write(ctx, ref("beside")); err != nil {
		t.Fatal(err)
	}
	if err := other.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: "s", Arena: "a", State: agon.SubmissionQueued}})
		return err
	}); err == nil {
		t.Error("a fact was written beside the server")
	}
	if err := s.Write(ctx, ref("server again")); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Commits(); n != before+1 {
		t.Errorf("%d commits of the server, want %d", n, before+1)
	}
	if err := errors.Join(other.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s, err = Open(ctx, path) // compares the database with the count
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"server", "beside", "server again"} {
		if err := s.Read(ctx, func(tx *store.Tx) error {
			refs, err := tx.Refs(agon.Sum([]byte(d)))
			if len(refs) != 1 {
				t.Errorf("%s: %v", d, refs)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("UPDATE schema_version SET version = version - 1")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBeside(ctx, path); err == nil || !strings.Contains(err.Error(), "use the agon that its server runs") {
		t.Errorf("an older schema: %v", err)
	}
}

// A schema that has only grown since takes the program of the version before, which leaves
// its number alone; others refuse the older program.
func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agon.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var known int
	if err := db.QueryRow(`SELECT version FROM schema_version WHERE one = 1`).Scan(&known); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from  int
		works bool
	}{{known, true}, {known + 1, false}, {0, false}} {
		if _, err := db.Exec(`UPDATE schema_version SET version = CASE one WHEN 1 THEN $1 ELSE $2 END`, known+1, c.from); err != nil {
			t.Fatal(err)
		}
		if c.from == 0 { // a program of before that said nothing
			if _, err := db.Exec(`DELETE FROM schema_version WHERE one = 2`); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), path)
		if (err == nil) != c.works {
			t.Errorf("programs from schema %d on work on it, this one knows %d: %v", c.from, known, err)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var now int
		if err := db.QueryRow(`SELECT version FROM schema_version WHERE one = 1`).Scan(&now); err != nil || now != known+1 {
			t.Errorf("the schema's number is %d afterwards, want %d: %v", now, known+1, err)
		}
	}
}
