package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
)

// With sslmode=verify-full a server is believed by its authority and its name alone.
func TestTLS(t *testing.T) {
	l := certs.Life{From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
	dir := t.TempDir()
	authority := func(name string) (*certs.Authority, string) {
		a, pem, _, err := certs.NewAuthority(name, l)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name+".pem")
		if err := os.WriteFile(path, pem, 0o600); err != nil {
			t.Fatal(err)
		}
		return a, path
	}
	own, ca := authority("own")
	_, others := authority("others")
	cert, key, err := own.Issue("db", []string{"127.0.0.1"}, l)
	if err != nil {
		t.Fatal(err)
	}
	s := pgtest.Start(t)
	s.TLS(t, cert, key)
	at := s.Database(t)
	st, err := Open(t.Context(), at+"?sslmode=verify-full&sslrootcert="+ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	for name, url := range map[string]string{
		"another authority": at + "?sslmode=verify-full&sslrootcert=" + others,
		"another name":      strings.Replace(at, "127.0.0.1", "localhost", 1) + "?sslmode=verify-full&sslrootcert=" + ca,
	} {
		if st, err := Open(t.Context(), url); err == nil {
			_ = st.Close()
			t.Errorf("%s is believed", name)
		} else if !strings.Contains(err.Error(), "x509") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
