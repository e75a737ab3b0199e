package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/engine/store"
)

// BenchmarkLimit reads one page of rows through a kept statement, its limit bound.
func BenchmarkLimit(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if err := s.Read(b.Context(), func(tx *store.Tx) error {
			_, err := tx.Periods("an-arena", 10)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// A bound limit is written as a sum, which SQLite's planner does not look into. What
// else stands in a statement stays as it is.
func TestBoundLimit(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT n FROM a WHERE b = $1 ORDER BY n LIMIT $2":           "SELECT n FROM a WHERE b = $1 ORDER BY n LIMIT $2+0",
		"SELECT n FROM a LIMIT $12 OFFSET $13":                       "SELECT n FROM a LIMIT $12+0 OFFSET $13+0",
		"SELECT n FROM (SELECT n FROM a LIMIT $1) AS x WHERE m = $2": "SELECT n FROM (SELECT n FROM a LIMIT $1+0) AS x WHERE m = $2",
		"SELECT n FROM a ORDER BY n LIMIT 1":                         "SELECT n FROM a ORDER BY n LIMIT 1",
		"SELECT n FROM a WHERE n > $1":                               "SELECT n FROM a WHERE n > $1",
	} {
		if got := summedLimits(query); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
