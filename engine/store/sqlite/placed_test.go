package sqlite

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agon-arena/agon/engine/store"
)

func TestPlaced(t *testing.T) {
	for _, c := range []struct {
		query, text string
		order       []int
	}{
		{"SELECT 1", "SELECT 1", nil},
		{"VALUES ($1, $2, $3)", "VALUES (?, ?, ?)", nil},
		{"a = $1 AND b = $2 AND c = $1", "a = ? AND b = ? AND c = ?", []int{0, 1, 0}},
		{"x = $10 AND y = $2", "x = ? AND y = ?", []int{9, 1}},
		{"LIMIT $2+0", "LIMIT ?+0", []int{1}},
	} {
		text, order, err := placed(c.query)
		if err != nil || text != c.text || !slices.Equal(order, c.order) {
			t.Errorf("%s: %q, %v, %v", c.query, text, order, err)
		}
	}
	if _, _, err := placed("x = $0"); err == nil {
		t.Error("a parameter $0 is taken")
	}
}

// TestArgumentsStandWhereTheyAre: an argument may stand twice, anywhere, and one that is
// missing is an error.
func TestArgumentsStandWhereTheyAre(t *testing.T) {
	e, err := openEngine(context.Background(), filepath.Join(t.TempDir(), "agon.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Read(t.Context(), func(ctx context.Context, q store.Querier) error {
		var a, b, c string
		if err := q.QueryRowContext(ctx, "SELECT $2, $1, $2", "one", "two").Scan(&a, &b, &c); err != nil || a != "two" || b != "one" || c != "two" {
			t.Errorf("%q %q %q, %v", a, b, c, err)
		}
		if err := q.QueryRowContext(ctx, "SELECT $3, $1", "one", "two").Scan(&a, &b); err == nil {
			t.Errorf("a parameter without an argument is %q", a)
		}
		if _, err := q.QueryContext(ctx, "SELECT $3, $1", "one", "two"); err == nil {
			t.Error("a parameter without an argument is taken")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
