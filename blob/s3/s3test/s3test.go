// Package s3test starts a real S3 server (versitygw) for tests.
package s3test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Binary is the variable that names the server's binary; `make s3` builds it.
const Binary = "AGON_TEST_S3"

// Server is one S3 server on a port of loopback.
type Server struct {
	addr, key, secret string
	c                 *minio.Client
}

// Start starts a server that ends with the test. Without a binary the test is
// skipped: `make s3` runs it.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := os.Getenv(Binary)
	if bin == "" {
		t.Skip(Binary + " names no S3 server: make s3 builds one and runs this test")
	}
	dir := t.TempDir()
	for _, d := range []string{"data", "side"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{addr: l.Addr().String(), key: "agon-test", secret: word()}
	_ = l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, bin, "--port", s.addr, "--access", s.key, "--secret", s.secret, "--quiet",
		"posix", "--sidecar", filepath.Join(dir, "side"), filepath.Join(dir, "data"))
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
		_ = out.Close()
		if t.Failed() {
			b, _ := os.ReadFile(out.Name())
			t.Logf("the S3 server said:\n%s", b)
		}
	})
	if s.c, err = minio.New(s.addr, &minio.Options{Creds: credentials.NewStaticV4(s.key, s.secret, ""), Region: "us-east-1"}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // it has no other sign of being ready
		if r, err := http.Get("http://" + s.addr + "/"); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatal("the S3 server does not answer")
		}
	}
}

func word() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Bucket makes an empty bucket and returns its s3:// URL.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	name := "b" + word()
	if err := s.c.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	q := url.Values{"endpoint": {s.Endpoint()}, "style": {"path"}}
	return (&url.URL{Scheme: "s3", Host: name, RawQuery: q.Encode()}).String()
}

// Endpoint is the server's address.
func (s *Server) Endpoint() string { return "http://" + s.addr }

// Client speaks to the server without the store.
func (s *Server) Client() *minio.Client { return s.c }

// Getenv is an environment with the server's credentials.
func (s *Server) Getenv(name string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": s.key, "AWS_SECRET_ACCESS_KEY": s.secret}[name]
}
