// Package teststore opens stores for the tests of what uses them.
package teststore

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/sqlite"
)

// Env names a PostgreSQL server (a URL whose user may make databases) on which
// tests open their stores, in place of SQLite files: make postgres.
const Env = "AGON_TEST_STORE"

// Open opens the store of dir: the file agon.db in it, or a database of its own
// on the server that Env names. The same dir is the same data. The caller
// closes it; a database is dropped with the test.
func Open(t testing.TB, dir string) *store.Store {
	t.Helper()
	server := os.Getenv(Env)
	if server == "" {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, "agon.db"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", Env, err)
	}
	sum := sha256.Sum256([]byte(dir))
	name := "t" + hex.EncodeToString(sum[:12])
	admin(t, server, func(db *sql.DB) error {
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM pg_database WHERE datname = $1`, name).Scan(&n); err != nil || n > 0 {
			return err
		}
		t.Cleanup(func() {
			admin(t, server, func(db *sql.DB) error {
				_, err := db.Exec(`DROP DATABASE IF EXISTS ` + name + ` WITH (FORCE)`)
				return err
			})
		})
		_, err := db.Exec(`CREATE DATABASE ` + name)
		return err
	})
	u.Path = "/" + name
	s, err := postgres.Open(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func admin(t testing.TB, server string, fn func(*sql.DB) error) {
	t.Helper()
	db, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := fn(db); err != nil {
		t.Fatal(err)
	}
}
