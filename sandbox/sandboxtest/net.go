package sandboxtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/sandbox"
)

// seen is what the stand-in gateway tells about a request.
type seen struct {
	Method, Path, Host, Body string
	Header                   http.Header
}

func testDoors(t *testing.T, s *suite) {
	hold := make(chan struct{})
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: first\n\n")
			w.(http.Flusher).Flush()
			<-hold
			fmt.Fprint(w, "data: second\n\n")
			return
		}
		if r.URL.Path == "/base/go" {
			close(hold)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(seen{r.Method, r.URL.RequestURI(), r.Host, string(body), r.Header})
	}))
	defer gate.Close()
	b := s.start(t, func(sp *sandbox.Spec) {
		sp.Hostnames = []string{"sandbox-proxy"}
		sp.Doors = []sandbox.Door{
			{Listen: "127.0.0.1:8000", Target: gate.URL + "/base", Header: map[string]string{"X-Session": "secret"}},
			{Listen: "127.0.0.1:80", Target: gate.URL, Header: map[string]string{"X-Session": "other"}},
		}
	})
	r := py(t, b, `
import urllib.request
q = urllib.request.Request("http://127.0.0.1:8000/a%2Fb?x=1&y=%20", data=b"body" * 1000, headers={
    "X-Session": "forged", "x-session": "forged", "Connection": "x-session", "Proxy-Authorization": "p", "X-Mine": "kept"})
print(urllib.request.urlopen(q).read().decode())
print(urllib.request.urlopen("http://sandbox-proxy/plain").read().decode())`)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var one, two seen
	if r.Code != 0 {
		t.Fatal(r)
	}
	for i, v := range []*seen{&one, &two} {
		// print adds an empty line after each reply's own line end
		if err := json.Unmarshal([]byte(lines[i*2]), v); err != nil {
			t.Fatalf("%v: %v", err, r)
		}
	}
	if one.Method != "POST" || one.Path != "/base/a%2Fb?x=1&y=%20" || len(one.Body) != 4000 {
		t.Errorf("request arrived as %+v", one)
	}
	if got := one.Header.Values("X-Session"); len(got) != 1 || got[0] != "secret" {
		t.Errorf("session header: %q", got)
	}
	if one.Header.Get("Proxy-Authorization") != "" || one.Header.Get("X-Mine") != "kept" {
		t.Errorf("headers: %v", one.Header)
	}
	if two.Header.Get("X-Session") != "other" || two.Path != "/plain" {
		t.Errorf("second door: %+v", two)
	}
	// A stream arrives event by event: the second is not sent before the first was read.
	r = py(t, b, `
import urllib.request
s = urllib.request.urlopen("http://127.0.0.1:8000/events")
assert s.readline() == b"data: first\n"
urllib.request.urlopen("http://127.0.0.1:8000/go").read()
s.readline()
print(s.readline().decode(), end="")`)
	if r.out != "data: second\n" {
		t.Error(r)
	}
}

// A door to what is dialled passes any protocol: here the far side speaks first, and
// answers once the box has said all.
func testPipe(t *testing.T, s *suite) {
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
				fmt.Fprint(c, "\x00hello\n")
				b, _ := io.ReadAll(c)
				fmt.Fprint(c, len(b))
			}()
		}
	}()
	b := s.start(t, func(sp *sandbox.Spec) {
		sp.Hostnames = []string{"db"}
		sp.Doors = []sandbox.Door{{Listen: "127.0.0.1:5432", Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp4", far.Addr().String())
		}}}
	})
	r := py(t, b, `
import socket
s = socket.create_connection(("db", 5432)); f = s.makefile("rb")
assert f.readline() == b"\0hello\n"
s.sendall(b"CONNECT x HTTP/1.1\r\n\r\n" + b"y" * 500000); s.shutdown(socket.SHUT_WR)
print(f.read().decode())`)
	if r.Code != 0 || r.out != "500022\n" {
		t.Error(r)
	}
}

func testDoorAbuse(t *testing.T, s *suite) {
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	defer gate.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a request reached another server of the host")
	}))
	defer other.Close()
	b := s.start(t, func(sp *sandbox.Spec) {
		sp.Doors = []sandbox.Door{{Listen: "127.0.0.1:8000", Target: gate.URL}}
	})
	script := `
import socket, threading
def ask(data):
    s = socket.create_connection(("127.0.0.1", 8000), 15)
    s.sendall(data)
    out = b""
    try:
        while True:
            c = s.recv(65536)
            if not c: break
            out += c
    except OSError: pass
    return out.split(b"\r\n")[0].decode(errors="replace"), out
print(ask(b"CONNECT OTHER HTTP/1.1\r\nHost: OTHER\r\n\r\n")[0])
print(ask(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")[0])
print(ask(b"GET http://OTHER/ HTTP/1.1\r\nHost: OTHER\r\nConnection: close\r\n\r\n")[0])
print(ask(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200000 + b"\r\n\r\n")[0])
print(ask(b"garbage\r\n\r\n")[0])
print(ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")[0])
try:
    l = socket.socket(); l.bind(("127.0.0.1", 8000)); l.listen(); print("hijacked")
except OSError as e: print("in use", e.errno)
`
	r := py(t, b, strings.ReplaceAll(script, "OTHER", other.Listener.Addr().String()))
	l := strings.Split(r.out, "\n")
	if r.Code != 0 || len(l) < 7 {
		t.Fatal(r)
	}
	for i, want := range []string{" 400 ", " 400 ", " 200 ", " 431 ", " 400 ", "", "in use 98"} {
		if !strings.Contains(l[i], want) {
			t.Errorf("line %d: %q, want %q", i, l[i], want)
		}
	}
}

func testNetwork(t *testing.T, s *suite) {
	host, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Close() }()
	abstract, err := net.Listen("unix", fmt.Sprintf("@agon-sandboxtest-%d", host.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = abstract.Close() }()
	b := s.start(t, nil)
	r := py(t, b, fmt.Sprintf(`
import socket
def tcp(h, p, f=socket.AF_INET):
    def g():
        s = socket.socket(f); s.settimeout(5); s.connect((h, p))
    return g
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("192.0.2.53", 53))
def ab():
    s = socket.socket(socket.AF_UNIX); s.connect("\0agon-sandboxtest-%[1]d")
def fam(n, kind=socket.SOCK_DGRAM, proto=0):
    return lambda: socket.socket(n, kind, proto)
for name, f in [("public", tcp("192.0.2.1", 443)), ("metadata", tcp("169.254.169.254", 80)), ("private", tcp("10.0.0.1", 53)),
    ("docker", tcp("172.17.0.1", 80)), ("host loopback", tcp("127.0.0.1", %[1]d)), ("v6", tcp("2001:db8::1", 443, socket.AF_INET6)),
    ("udp", udp), ("abstract", ab), ("dns", lambda: socket.getaddrinfo("example.org", 80)), ("ax25", fam(3)), ("key", fam(15)),
    ("netlink", fam(16)), ("packet", fam(17, socket.SOCK_RAW)), ("alg", fam(38, 5)), ("vsock", fam(40, 1)), ("can", fam(29, 3)),
    ("raw", fam(2, socket.SOCK_RAW, 1)), ("sctp", fam(2, 1, 132)), ("bluetooth", fam(31, 1)), ("tipc", fam(30)), ("xdp", fam(44, 3)),
    ("ping", fam(2, socket.SOCK_DGRAM, 1)), ("mptcp", fam(2, 1, 262))]:
    try:
        f(); print("REACHED", name)
    except OSError as e:
        print(name, e.errno)
a, c = socket.socketpair()
srv = socket.create_server(("127.0.0.1", 5000)); cl = socket.create_connection(("127.0.0.1", 5000)); srv.accept()[0].send(b"own"); print(cl.recv(9).decode())
`, host.Addr().(*net.TCPAddr).Port))
	if r.Code != 0 || strings.Contains(r.out, "REACHED") || !strings.Contains(r.out, "own\n") {
		t.Error(r)
	}
	t.Log(strings.ReplaceAll(r.out, "\n", "; "))
}

func testDial(t *testing.T, s *suite) {
	b := s.start(t, nil)
	if _, err := b.Dial(t.Context(), 5001); err == nil {
		t.Error("dialled a port that nobody listens on")
	}
	up := make(chan struct{})
	say := sync.OnceFunc(func() { close(up) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		exec(t, b, sandbox.Cmd{Args: []string{"python3", "-u", "-c", `
import socket
s = socket.create_server(("127.0.0.1", 5001)); print("up")
c, _ = s.accept(); c.sendall(b"you said " + c.recv(100)); c.close()`}, Stdout: writer(func([]byte) { say() })})
	}()
	select {
	case <-up:
	case <-done:
		t.Fatal("the server did not start")
	}
	c, err := b.Dial(t.Context(), 5001)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fmt.Fprint(c, "hello")
	got, err := bufio.NewReader(c).ReadString(0)
	if got != "you said hello" {
		t.Errorf("%q, %v", got, err)
	}
	<-done
}
