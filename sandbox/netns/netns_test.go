package netns

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
)

func TestMain(m *testing.M) {
	MaybeChild()
	os.Exit(m.Run())
}

func open(t *testing.T) *NS {
	t.Helper()
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(n.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestNamespace(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	n := open(t)
	l, err := n.Listen("127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := n.Listen("127.0.0.1:80"); err == nil {
		t.Error("two listeners on one port")
	}
	if c, err := n.Dial(t.Context(), 81); err == nil {
		_ = c.Close()
		t.Error("dialled a closed port")
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(c, c)
		_ = c.Close()
	})
	c, err := n.Dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "hello")
	_ = c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	_ = c.Close()
	wg.Wait()
	if _, err := n.Listen("0.0.0.0:1"); err == nil {
		t.Error("listened beyond the loopback device")
	}
	if _, err := n.Dial(t.Context(), 70000); err == nil {
		t.Error("dialled no port")
	}
	// No thread of this process stays in another namespace.
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if now, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net"); err == nil && now != before {
			t.Errorf("thread %s stays in %s", task.Name(), now)
		}
	}
}

func TestMany(t *testing.T) {
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			n, err := New()
			if err != nil {
				t.Error(err)
				return
			}
			l, err := n.Listen("127.0.0.1:8000") // the same port in each
			if err != nil {
				t.Error(err)
			} else {
				_ = l.Close()
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestWithoutRoot runs the tests above as a user without privileges, where a
// child keeps the namespace.
func TestWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests already run without root")
	}
	dir, err := os.MkdirTemp("", "agon-netns-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin := dir + "/netns.test"
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(bin, b, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^(TestNamespace|TestMany|TestDoors|TestPipes)$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") < 4 {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestDoors(t *testing.T) {
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, r.Header["X-Box"])
	}))
	defer gate.Close()
	n := open(t)
	d, err := n.Open([]sandbox.Door{
		{Listen: "127.0.0.1:8000", Target: gate.URL, Header: map[string]string{"x-box": "one"}},
		{Listen: "[::1]:8000", Target: "http://127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context) (string, int) {
		tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx, 8000) }}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, "GET", "http://x/path", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["X-BOX"] = []string{"forged"}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return err.Error(), 0
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		return string(b), resp.StatusCode
	}
	if got, code := ask(t.Context()); got != "/path[one]" || code != 200 {
		t.Errorf("%q, %d", got, code)
	}
	gate.Close()
	if got, code := ask(t.Context()); code != 502 || !strings.Contains(got, "gateway_unreachable") {
		t.Errorf("%q, %d", got, code)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, code := ask(t.Context()); code != 0 {
		t.Error("a closed door answered")
	}
	if _, err := n.Open([]sandbox.Door{{Listen: "127.0.0.1:1", Target: "http://a"}, {Listen: "127.0.0.1:1", Target: "http://a"}}); err == nil {
		t.Error("two doors on one port")
	}
}

// A door with TLS is called over HTTPS, and leads to the same place.
func TestDoorTLS(t *testing.T) {
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path, r.Header["X-Box"], r.Proto) }))
	defer gate.Close()
	other := httptest.NewTLSServer(nil) // for its certificate
	defer other.Close()
	n := open(t)
	d, err := n.Open([]sandbox.Door{{Listen: "127.0.0.1:443", Target: gate.URL, Header: map[string]string{"X-Box": "one"}, TLS: &tls.Config{Certificates: other.TLS.Certificates}}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	for trust, want := range map[*x509.CertPool]string{roots: "/path[one]HTTP/1.1", x509.NewCertPool(): "unknown authority"} {
		tr := &http.Transport{
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx, 443) },
			TLSClientConfig: &tls.Config{RootCAs: trust, ServerName: "example.com"},
		}
		resp, err := (&http.Client{Transport: tr}).Get("https://example.com/path")
		got := fmt.Sprint(err)
		if err == nil {
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			got = string(b)
		}
		tr.CloseIdleConnections()
		if !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A door with Dial passes bytes of any protocol: the far side may speak first, and
// the end of what one side sends is not the end of what it is sent.
func TestPipes(t *testing.T) {
	far, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }()
	go func() {
		for {
			c, err := far.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprintln(c, "220 hello")
				b, _ := io.ReadAll(c) // to the end of what the other sends
				fmt.Fprintf(c, "%d bytes", len(b))
				if len(b) == 0 {
					_, _ = c.Read(make([]byte, 1)) // until the door is closed
				}
			}()
		}
	}()
	n := open(t)
	gone := errors.New("nobody there")
	d, err := n.Open([]sandbox.Door{
		{Listen: "127.0.0.1:5432", Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp4", far.Addr().String())
		}},
		{Listen: "127.0.0.1:5433", Dial: func(context.Context) (net.Conn, error) { return nil, gone }},
	})
	if err != nil {
		t.Fatal(err)
	}
	talk := func(port int, send string) string {
		c, err := n.Dial(t.Context(), port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, send); err == nil {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}
		b, _ := io.ReadAll(c)
		return string(b)
	}
	// More than any buffer between the two holds.
	if got := talk(5432, strings.Repeat("x", 3<<20)); got != "220 hello\n3145728 bytes" {
		t.Errorf("%q", got)
	}
	if got := talk(5433, "x"); got != "" {
		t.Errorf("%q of what could not be reached", got)
	}
	open, err := n.Dial(t.Context(), 5432)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	line := make([]byte, len("220 hello\n"))
	if _, err := io.ReadFull(open, line); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil { // returns once all connections have ended
		t.Error(err)
	}
	if _, err := open.Read(line); err == nil {
		t.Error("a connection through a closed door goes on")
	}
}

// Connections beyond the bound wait until one ends.
func TestBound(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &boundListener{Listener: l, slots: make(chan struct{}, 1), done: make(chan struct{})}
	dial := func() net.Conn {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	dial()
	first, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := b.Accept()
		second <- err
	}()
	select {
	case <-second:
		t.Fatal("accepted beyond the bound")
	default:
	}
	_ = first.Close()
	_ = first.Close() // frees one place only
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	go func() { _, err := b.Accept(); second <- err }()
	_ = b.Close()
	if err := <-second; err == nil {
		t.Error("accepted after the end")
	}
}

func TestConnectTimeout(t *testing.T) {
	// A listener with a full queue does not answer; ctx ends the wait.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	for range 4 {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(c) }()
		if last = unix.Connect(c, sa); last != nil && !errors.Is(last, unix.EINPROGRESS) {
			t.Fatal(last)
		}
	}
	c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(c) }()
	cancel()
	if err := connect(ctx, c, sa); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
