// Package pgtest starts a real PostgreSQL server for tests.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Server is one PostgreSQL server on a unix socket and a port of loopback.
type Server struct {
	bin, dir, data string
	port           int
	listen         string // addresses, beside the unix socket
	cred           *syscall.Credential
}

// envBin names the folder of the programs of another version than Debian's newest.
const envBin = "AGON_TEST_PG_BIN"

// Start starts a server that ends with the test. It fails where PostgreSQL is
// not installed: nothing is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "agon-pg-") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return StartIn(t, dir)
}

// StartIn is Start with everything of the server in dir, which is empty and has a short path.
func StartIn(t testing.TB, dir string) *Server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if dir := os.Getenv(envBin); dir != "" {
		found = []string{filepath.Join(dir, "initdb")}
	}
	if len(found) == 0 {
		t.Fatal("PostgreSQL 15 or newer is not installed (Debian: apt-get install postgresql); make test installs it")
	}
	slices.Sort(found)
	s := &Server{bin: filepath.Dir(found[len(found)-1]), dir: dir, data: filepath.Join(dir, "data"), listen: "127.0.0.1"}
	if os.Geteuid() == 0 { // the server refuses to be root
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	s.port = freePort(t)
	s.run(t, "initdb", "-D", s.data, "-U", "agon", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
	s.Up(t)
	t.Cleanup(func() { s.Kill(t) })
	return s
}

func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	// Not a pipe: the server that pg_ctl leaves behind would hold it open.
	out, err := os.CreateTemp(s.dir, name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	c.Stdout, c.Stderr = out, out
	if err := c.Run(); err != nil {
		b, _ := os.ReadFile(out.Name())
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		t.Fatalf("%s: %v\n%s\n%s", name, err, b, log)
	}
}

// Up starts the server and waits until it answers.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data, "-l", filepath.Join(s.dir, "log"), "-w", "-t", "120", "start",
		"-o", fmt.Sprintf("-p %d -k %s -c listen_addresses=%s -c max_connections=100", s.port, s.dir, s.listen))
}

// Open lets the hosts of networks (CIDR) in, by every address of this machine. The
// server starts again.
func (s *Server) Open(t testing.TB, networks ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range networks {
		if _, err := fmt.Fprintf(f, "host all all %s trust\n", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s.listen = "*"
	s.Down(t)
	s.Up(t)
}

// TLS gives the server a certificate; it starts again.
func (s *Server) TLS(t testing.TB, cert, key []byte) {
	t.Helper()
	for name, b := range map[string][]byte{"server.crt": cert, "server.key": key} {
		path := filepath.Join(s.data, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if s.cred != nil {
			if err := os.Chown(path, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Exec(t, "postgres", "ALTER SYSTEM SET ssl = on")
	s.Down(t)
	s.Up(t)
}

// Down ends the server as its administrator would: connections are ended at once.
func (s *Server) Down(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data, "-m", "fast", "-w", "-t", "120", "stop")
}

// Kill kills the server and its children without a word (SIGKILL), and waits until they are gone.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return // it does not run
	}
	head, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(head)
	if err != nil {
		t.Fatal(err)
	}
	kids, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	list := append(strings.Fields(string(kids)), head)
	for _, k := range list[:len(list)-1] {
		n, _ := strconv.Atoi(k)
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
	for _, k := range list {
		n, _ := strconv.Atoi(k)
		for syscall.Kill(n, 0) == nil && !zombie(n) {
			time.Sleep(5 * time.Millisecond) // there is no event for the end of another's child
		}
	}
	// A killed server leaves its locks, and whoever has not been reaped yet looks alive.
	for _, left := range []string{filepath.Join(s.data, "postmaster.pid"), filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d.lock", s.port))} {
		_ = os.Remove(left)
	}
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// URL is the address of a database of the server.
func (s *Server) URL(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User("agon"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database}).String()
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	name := "t" + hex.EncodeToString(b[:])
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec runs a statement in a database.
func (s *Server) Exec(t testing.TB, database, query string) {
	t.Helper()
	if err := s.Try(database, query); err != nil {
		t.Fatal(err)
	}
}

// Try is Exec for a server that may be unable to.
func (s *Server) Try(database, query string) error {
	db, err := sql.Open("pgx", s.URL(database))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(context.Background(), query)
	return err
}

// freePort finds a port for a server that is ended and started again: below those
// that the system hands out by itself, or another process may have it meanwhile.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 20_000 + mrand.IntN(10_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
