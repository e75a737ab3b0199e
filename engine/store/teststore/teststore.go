// Package teststore opens stores for the tests of what uses them.
package teststore

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
	at := database(t, server, dir)
	name := at[strings.LastIndexByte(at, '/')+1:]
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
		_, err := db.Exec(`CREATE DATABASE ` + name + ` TEMPLATE ` + template(t, server, db))
		return err
	})
	s, err := postgres.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Raw opens the database behind the store of dir, to change it as nobody may. key is the
// name of what tells the rows of a table apart. It ends with the test.
func Raw(t testing.TB, dir string) (db *sql.DB, key string) {
	t.Helper()
	driver, at, key := "sqlite", "file:"+(&url.URL{Path: filepath.Join(dir, "agon.db")}).EscapedPath(), "rowid"
	if server := os.Getenv(Env); server != "" {
		driver, at, key = "pgx", database(t, server, dir), "ctid"
	}
	db, err := sql.Open(driver, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, key
}

// database is the URL of the database of dir.
func database(t testing.TB, server, dir string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", Env, err)
	}
	sum := sha256.Sum256([]byte(dir))
	u.Path, u.RawQuery = "/t"+hex.EncodeToString(sum[:12]), ""
	return u.String()
}

var schema struct {
	sync.Mutex
	name string
}

// template is a database of the server with the schema and nothing else: a copy of it is
// made in a fraction of the time that the statements of the schema take. Each test process
// makes its own, since it may know another schema.
func template(t testing.TB, server string, db *sql.DB) string {
	t.Helper()
	schema.Lock()
	defer schema.Unlock()
	if schema.name != "" {
		return schema.name
	}
	name := fmt.Sprintf("template%d_%x", os.Getpid(), time.Now().UnixNano()) //nolint:forbidigo // a name
	if _, err := db.Exec(`CREATE DATABASE ` + name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	s, err := postgres.Open(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	schema.name = name
	return name
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
