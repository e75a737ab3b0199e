package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
)

// fleet is an agent's port on this machine, its operator's authority and its files.
type fleet struct {
	t         testing.TB
	dir       string
	authority *certs.Authority
	at        string // tls://HOST:PORT
	log       *lines
	made      int // certificates of clients
}

// lines is a log that may be waited for.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.news)
	l.news = make(chan struct{})
	return l.text.Write(b)
}

// wait waits until the log has a text.
func (l *lines) wait(t testing.TB, want string) {
	t.Helper()
	for {
		l.mu.Lock()
		got, news := l.text.String(), l.news
		l.mu.Unlock()
		if strings.Contains(got, want) {
			return
		}
		select {
		case <-news:
		case <-t.Context().Done():
			t.Fatalf("the log has no %q: %s", want, got)
		case <-time.After(20 * time.Second):
			t.Fatalf("the log has no %q: %s", want, got)
		}
	}
}

func (f *fleet) write(name string, b []byte) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func life(d time.Duration) certs.Life {
	return certs.Life{From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(d)}
}

func authority(t testing.TB) (a *certs.Authority, pem []byte) {
	t.Helper()
	a, pem, _, err := certs.NewAuthority("fleet", life(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a, pem
}

// as returns a client's end with a certificate of by, good for d.
func (f *fleet) as(by *certs.Authority, name string, d time.Duration) *certs.Client {
	f.t.Helper()
	cert, key, err := by.Issue(name, nil, life(d))
	if err != nil {
		f.t.Fatal(err)
	}
	f.made++
	file := fmt.Sprintf("client-%d", f.made)
	files := certs.Files{CA: filepath.Join(f.dir, "ca.pem"), Cert: f.write(file+".pem", cert), Key: f.write(file+"-key.pem", key)}
	c, err := certs.OpenClient(files, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// port serves keys over TLS for the clients of a file.
func port(t testing.TB, clients string, change func(*Server), keys ...auth.Signer) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), log: &lines{news: make(chan struct{})}}
	var ca []byte
	f.authority, ca = authority(t)
	cert, key, err := f.authority.Issue("agent", []string{"127.0.0.1"}, life(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(f.log, nil))
	from, err := certs.OpenServer(certs.Files{Cert: f.write("agent.pem", cert), Key: f.write("agent-key.pem", key), CA: f.write("ca.pem", ca)}, log, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	list, err := OpenClients(f.write("clients.toml", []byte(clients)), log)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Keys: keys, Clients: list.Get, MaxConns: 4, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	ln, err := ListenTLS("127.0.0.1:0", from)
	if err != nil {
		t.Fatal(err)
	}
	f.at = Scheme + ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// Clients of a fleet have what their names are allowed, and nothing of others.
func TestFleet(t *testing.T) {
	alice, bob := key(t, "//Alice"), key(t, "//Bob")
	var audit bytes.Buffer
	f := port(t, fmt.Sprintf("[[client]]\nname = 'val-1'\nkeys = ['%s']\nallow = ['agon-v1']\n[[client]]\nname = 'val-2'\nallow = ['text', '5.3=2']\nper_day = '3'\n", alice.SS58()),
		func(s *Server) { s.audit = AuditTo(&audit) }, alice, bob)
	one, two := f.as(f.authority, "val-1", time.Hour), f.as(f.authority, "val-2", time.Hour)
	if keys, err := List(f.at, one); err != nil || len(keys) != 1 || keys[0] != alice.SS58() {
		t.Errorf("val-1 has keys %v %v", keys, err)
	}
	if keys, err := List(f.at, two); err != nil || len(keys) != 2 {
		t.Errorf("val-2 has keys %v %v", keys, err)
	}
	var e *Error
	if _, err := Dial(f.at, bob.SS58(), one); !errors.As(err, &e) || e.Code != CodeUnknownKey {
		t.Errorf("val-1 with a key of others: %v", err)
	}
	c, err := Dial(f.at, "", one)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request := []byte("agon-v1\nGET")
	if sig, err := c.Sign(request); err != nil || auth.Verify(alice.SS58(), request, sig) != nil {
		t.Errorf("a request: %v", err)
	}
	if _, err := c.Sign([]byte("hello")); !errors.As(err, &e) || e.Code != CodePolicy {
		t.Errorf("text for val-1: %v", err)
	}
	if _, err := c.SignExtrinsic(moving(5, 3, 1)); !errors.As(err, &e) || e.Code != CodePolicy {
		t.Errorf("a call for val-1: %v", err)
	}
	// Another client does not reach a key by asking past its own client's check.
	c.address = bob.SS58()
	if _, err := c.Sign(request); !errors.As(err, &e) || e.Code != CodeUnknownKey {
		t.Errorf("val-1 signs with a key of others: %v", err)
	}
	d, err := Dial(f.at, bob.SS58(), two)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.SignExtrinsic(moving(5, 3, 2*raoPerTAO)); err != nil {
		t.Errorf("a transfer of 2 for val-2: %v", err)
	}
	if _, err := d.SignExtrinsic(moving(5, 3, 2*raoPerTAO)); !errors.As(err, &e) || !strings.Contains(e.Message, "at most 3") {
		t.Errorf("a second one: %v", err)
	}
	var notes []string
	for line := range strings.Lines(audit.String()) {
		var x Signed
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		notes = append(notes, x.Who+" "+x.What)
	}
	if got := strings.Join(notes, ", "); got != "client val-1 agon-v1, client val-2 call 5.3" {
		t.Errorf("audit: %s", got)
	}
}

func TestFleetRefuses(t *testing.T) {
	f := port(t, "[[client]]\nname = 'val-1'\n", nil, key(t, "//Alice"))
	other, _ := authority(t)
	for name, x := range map[string]struct {
		over *certs.Client
		want string // at the client
		log  string
	}{
		"an authority of others":     {f.as(other, "val-1", time.Hour), "unknown certificate authority", "unknown authority"},
		"a certificate that is over": {f.as(f.authority, "val-1", -time.Hour), "expired certificate", "expired"},
		"a name that is not listed":  {f.as(f.authority, "val-3", time.Hour), "val-3 is not among the agent's clients", "client=val-3"},
	} {
		if _, err := List(f.at, x.over); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
		f.log.wait(t, x.log)
	}
	if _, err := List(f.at, nil); err == nil || !strings.Contains(err.Error(), "--client-cert") {
		t.Errorf("nothing to show: %v", err)
	}
	// Without a certificate, past our own client.
	conn, err := tls.Dial("tcp", strings.TrimPrefix(f.at, Scheme), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("no certificate: %v", err)
	}
	// An agent that another authority vouches for is not believed.
	own := f.as(f.authority, "val-1", time.Hour)
	_, pem := authority(t)
	f.write("ca.pem", pem)
	if _, err := List(f.at, own); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a false agent: %v", err)
	}
}

// Callers who stall take no place from others, and end.
func TestFleetStalls(t *testing.T) {
	f := port(t, "[[client]]\nname = 'val-1'\n", func(s *Server) { s.handshake = time.Second }, key(t, "//Alice"))
	address := strings.TrimPrefix(f.at, Scheme)
	var stalled []net.Conn
	for range perAddress - 1 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stalled = append(stalled, conn)
	}
	if _, err := List(f.at, f.as(f.authority, "val-1", time.Hour)); err != nil {
		t.Errorf("beside stalled callers: %v", err)
	}
	for _, conn := range stalled { // each is ended by the agent
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	f.log.wait(t, "handshake")
}

func TestFleetLimits(t *testing.T) {
	alice := key(t, "//Alice")
	f := port(t, "[[client]]\nname = 'val-1'\n", nil, alice)
	own := f.as(f.authority, "val-1", time.Hour)
	var open []*Client
	for range 4 {
		c := &Client{path: f.at, over: own, address: alice.SS58(), public: [32]byte(alice.Public())}
		defer c.Close()
		if _, err := c.Sign([]byte("m")); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	var e *Error
	if _, err := List(f.at, own); !errors.As(err, &e) || e.Code != CodeBusy {
		t.Errorf("a fifth connection: %v", err)
	}
	// Taken off the list, a client is out although it is connected.
	f.write("clients.toml", []byte("[[client]]\nname = 'val-2'\n"))
	if _, err := open[0].Sign([]byte("m")); !errors.As(err, &e) || e.Code != CodeRefused {
		t.Errorf("off the list: %v", err)
	}
	// A list that cannot be read changes nothing.
	f.write("clients.toml", []byte("[[client]]\nnme = 'val-1'\n"))
	if _, err := open[1].Sign([]byte("m")); !errors.As(err, &e) || e.Code != CodeRefused {
		t.Errorf("a broken list: %v", err)
	}
	f.log.wait(t, "no such setting: client.nme")
}

func TestFleetTooLarge(t *testing.T) {
	f := port(t, "[[client]]\nname = 'val-1'\n", nil, key(t, "//Alice"))
	own := f.as(f.authority, "val-1", time.Hour)
	say := func(text string) string {
		conn, err := own.Dial(t.Context(), strings.TrimPrefix(f.at, Scheme))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Error(err)
		}
		b := make([]byte, 200)
		n, err := conn.Read(b)
		if err != nil {
			t.Error(err)
		}
		return string(b[:n])
	}
	if got := say(strings.Repeat(" ", maxLine+1)); !strings.Contains(got, CodeTooLarge) {
		t.Errorf("a long line: %s", got)
	}
	if got := say(`{"op":"sign","message":"` + strings.Repeat("AAAA", MaxMessage/3+1) + `"}` + "\n"); !strings.Contains(got, "at most 65536") {
		t.Errorf("a large message: %s", got)
	}
}

// A renewed certificate is in force at the next connection; a broken one is not.
func TestFleetRenews(t *testing.T) {
	f := port(t, "[[client]]\nname = 'val-1'\n", nil, key(t, "//Alice"))
	own := f.as(f.authority, "val-1", time.Hour)
	served := func() string {
		conn, err := own.Dial(t.Context(), strings.TrimPrefix(f.at, Scheme))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := served()
	cert, key, err := f.authority.Issue("agent", []string{"127.0.0.1"}, life(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f.write("agent.pem", cert)
	if served() != first {
		t.Error("a certificate without its key is in force")
	}
	f.log.wait(t, "what they held before stays in force")
	f.write("agent-key.pem", key)
	if served() == first {
		t.Error("the renewed certificate is not in force")
	}
}

// What cannot be noted is not signed.
func TestAuditFails(t *testing.T) {
	path := socket(t)
	defer start(t, path, func(s *Server) { s.audit = func(Signed) error { return errors.New("disk full") } }, key(t, "//Alice"))()
	c, err := Dial(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var e *Error
	if _, err := c.Sign([]byte("m")); !errors.As(err, &e) || e.Code != CodeInternal {
		t.Errorf("signed: %v", err)
	}
}

func TestParseClients(t *testing.T) {
	for text, want := range map[string]string{
		"[[client]]\nname = ''":                                                  "client 1",
		"[[client]]\nname = 'a'\n[[client]]\nname = 'a'":                         "taken",
		"[[client]]\nname = 'a'\nkeys = ['5x']":                                  "keys",
		"[[client]]\nname = 'a'\nallow = ['all']":                                "want agon-v1",
		"[[client]]\nname = 'a'\nper_day = 'x'":                                  "TAO",
		"[[client]]\nname = 'a\\nb'\nallowed = []":                               "client.allowed",
		"[[client]]\nname = \"a\\nb\"":                                           "letters",
		"x = 1":                                                                  "no such setting",
		"[[client":                                                               "clients",
		strings.Repeat("[[client]]\nname = 'a'\n", maxClients+1):                 "at most 10000",
		"[[client]]\nname = 'a'\nallow = ['agon-v1']\ngenesis = ['00']":          "genesis",
		"[[client]]\nname = '" + strings.Repeat("a", 65) + "'\nallow = ['text']": "1 to 64",
	} {
		if _, err := ParseClients([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	c, err := ParseClients([]byte("[[client]]\nname = 'a'\nallow = ['text']\n[[client]]\nname = 'b'\n"))
	if err != nil || len(c) != 2 || c.Bounded() {
		t.Errorf("%v %v", c, err)
	}
}

func FuzzParseClients(f *testing.F) {
	f.Add([]byte("[[client]]\nname = 'a'\nkeys = []\nallow = ['5.3=1']\ngenesis = []\nper_day = '1'\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ParseClients(b)
		if err != nil {
			return
		}
		for name, c := range list {
			if certs.CheckName(name) != nil || c.name != name {
				t.Fatalf("%q is a name", name)
			}
		}
	})
}
