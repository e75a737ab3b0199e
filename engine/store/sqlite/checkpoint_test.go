package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/engine/store"
)

// The log starts over while the writer goes on, but not under a reader, and nothing of it
// is lost.
func TestLogStartsOver(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "db")
	e, err := openEngine(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	write := func() (pages int64) {
		t.Helper()
		if err := e.Write(ctx, func(ctx context.Context, q store.Querier) error {
			for range 200 {
				if _, err := q.ExecContext(ctx, "INSERT INTO big (b) VALUES (randomblob(4000))"); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		written += 200
		if pages, _, err = checkpoint(e.check.conn, "NOOP"); err != nil {
			t.Fatal(err)
		}
		return pages
	}
	count := func(e *engine) (n int) {
		t.Helper()
		if err := e.Read(ctx, func(ctx context.Context, q store.Querier) error {
			return q.QueryRowContext(ctx, "SELECT count(*) FROM big WHERE length(b) = 4000").Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := e.Write(ctx, func(ctx context.Context, q store.Querier) error {
		_, err := q.ExecContext(ctx, "CREATE TABLE big (b blob)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	write()

	if err := e.Read(ctx, func(ctx context.Context, q store.Querier) error {
		seen := 0
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM big").Scan(&seen); err != nil {
			return err
		}
		for last := int64(0); last < checkpointAt+1000; {
			pages := write()
			if pages < last {
				t.Fatalf("the log has %d pages after %d, under a reader", pages, last)
			}
			last = pages
		}
		again := 0
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM big").Scan(&again); err != nil || again != seen {
			t.Errorf("a reader sees %d rows and then %d, %v", seen, again, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	for last := write(); ; { // ends when the log starts over
		pages := write()
		if pages < last {
			break
		}
		last = pages
	}
	if n := count(e); n != written {
		t.Errorf("%d rows, want %d", n, written)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = openEngine(ctx, path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if n := count(e); n != written {
		t.Errorf("%d rows when it was opened again, want %d", n, written)
	}
}
