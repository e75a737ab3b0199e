// Package s3test starts a real S3 server for tests: versitygw or SeaweedFS.
package s3test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Binary and SeaweedFS are the variables that name the programs of versitygw and of
// SeaweedFS; `make s3` builds both.
const (
	Binary    = "AGON_TEST_S3"
	SeaweedFS = "AGON_TEST_S3_SEAWEEDFS"
)

// Options say how a server is started; useful zero value.
type Options struct {
	// Program is the variable that names the program: Binary (default) or SeaweedFS.
	Program string
	// Host is the address to listen on, 127.0.0.1 by default.
	Host string
	// Cert and Key are PEM files: versitygw serves TLS with them, to those who trust Roots.
	Cert, Key string
	Roots     *x509.CertPool
	// Data is the folder of the server's bytes, a temporary one by default.
	Data string
}

// Server is one S3 server.
type Server struct {
	bin, dir, data    string
	seaweed           bool
	addr, key, secret string
	tls               []string // arguments of versitygw; none: it serves without TLS
	web               *http.Client
	c                 *minio.Client
	cmd               *exec.Cmd // nil: it does not run
}

// Start starts versitygw on loopback until the test ends. Without a binary the test is
// skipped: `make s3` runs it.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start with options.
func StartWith(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Program == "" {
		o.Program = Binary
	}
	bin := os.Getenv(o.Program)
	if bin == "" {
		t.Skip(o.Program + " names no S3 server: make s3 builds one and runs this test")
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	s := &Server{bin: bin, dir: t.TempDir(), data: o.Data, seaweed: o.Program == SeaweedFS, key: "agon-test", secret: word()}
	if s.data == "" {
		s.data = t.TempDir()
	}
	for _, d := range []string{filepath.Join(s.data, "data"), filepath.Join(s.data, "side")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "s3.json"), fmt.Appendf(nil,
		`{"identities":[{"name":"agon","credentials":[{"accessKey":%q,"secretKey":%q}],"actions":["Admin","Read","Write","List","Tagging"]}]}`, s.key, s.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	s.addr = net.JoinHostPort(o.Host, freePort(t, o.Host))
	var err error
	s.web = http.DefaultClient
	if o.Cert != "" {
		s.tls = []string{"--cert", o.Cert, "--key", o.Key}
		s.web = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}}}
	}
	if s.c, err = minio.New(s.addr, &minio.Options{Secure: o.Cert != "", Transport: s.web.Transport, Creds: credentials.NewStaticV4(s.key, s.secret, ""), Region: "us-east-1"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(s.dir, "out"))
			t.Logf("the S3 server said:\n%s", b[max(0, len(b)-8<<10):])
		}
	})
	s.Up(t)
	return s
}

// freePort finds a port for a server that is ended and started again: below those that
// the system hands out by itself, or another process may have it meanwhile.
func freePort(t testing.TB, host string) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(11_000 + mrand.IntN(8_000)) // SeaweedFS takes 10,000 more for its second port
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// command is how the program is started.
func (s *Server) command(t testing.TB) *exec.Cmd {
	data := filepath.Join(s.data, "data")
	if !s.seaweed {
		return exec.Command(s.bin, slices.Concat([]string{"--port", s.addr, "--access", s.key, "--secret", s.secret, "--quiet"}, s.tls,
			[]string{"posix", "--sidecar", filepath.Join(s.data, "side"), data})...)
	}
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	// One process is master, volume server, filer and S3.
	return exec.Command(s.bin, "-logtostderr", "server", "-dir="+data, "-ip="+host, "-ip.bind="+host, "-volume.max=100", "-master.volumeSizeLimitMB=64",
		"-master.port="+freePort(t, host), "-volume.port="+freePort(t, host), "-filer", "-filer.port="+freePort(t, host),
		"-s3", "-s3.port="+port, "-s3.config="+filepath.Join(s.dir, "s3.json"))
}

// Up starts the server and waits until it answers.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	out, err := os.OpenFile(filepath.Join(s.dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd := s.command(t)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // it has no other sign of being ready
		if s.answers(t.Context()) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the S3 server does not answer")
		}
	}
}

func (s *Server) answers(ctx context.Context) bool {
	if s.seaweed { // its parts find each other some time after the first answer
		_, err := s.c.ListBuckets(ctx)
		return err == nil
	}
	r, err := s.web.Get(s.Endpoint() + "/")
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return true
}

// Kill kills the server without a word (SIGKILL).
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
	s.cmd = nil
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
func (s *Server) Endpoint() string {
	if s.tls != nil {
		return "https://" + s.addr
	}
	return "http://" + s.addr
}

// Client speaks to the server without the store.
func (s *Server) Client() *minio.Client { return s.c }

// Getenv is an environment with the server's credentials.
func (s *Server) Getenv(name string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": s.key, "AWS_SECRET_ACCESS_KEY": s.secret}[name]
}
