package agent

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/auth"
)

func key(t testing.TB, uri string) *auth.Key {
	t.Helper()
	k, err := auth.KeyFromURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// start serves the keys on a new socket; stop ends it and waits.
func start(t testing.TB, path string, change func(*Server), keys ...auth.Signer) (stop func()) {
	t.Helper()
	s, err := New(Config{Keys: keys, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// socket is a path short enough for the kernel.
func socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agon-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "a", "agent.sock")
}

func TestSign(t *testing.T) {
	path, alice, bob := socket(t), key(t, "//Alice"), key(t, "//Bob")
	stop := start(t, path, nil, alice, bob)
	defer stop()
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	keys, err := List(path, nil)
	if err != nil || len(keys) != 2 {
		t.Errorf("list: %v %v", keys, err)
	}
	c, err := Dial(path, bob.SS58(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, msg := range [][]byte{nil, []byte("hello"), make([]byte, MaxMessage)} {
		sig, err := c.Sign(msg)
		if err != nil || auth.Verify(bob.SS58(), msg, sig) != nil {
			t.Errorf("%d bytes: %v", len(msg), err)
		}
	}
	var refused *Error
	if _, err := c.Sign(make([]byte, MaxMessage+1)); !errors.As(err, &refused) || refused.Code != CodeTooLarge {
		t.Errorf("too large: %v", err)
	}
	if _, err := Dial(path, key(t, "//Eve").SS58(), nil); !errors.As(err, &refused) || refused.Code != CodeUnknownKey {
		t.Errorf("unknown key: %v", err)
	}
	if _, err := Dial(path, "", nil); err == nil || !strings.Contains(err.Error(), "2 keys") {
		t.Errorf("no key named: %v", err)
	}
	// Many at once, over one client.
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if sig, err := c.Sign([]byte("m")); err != nil || auth.Verify(bob.SS58(), []byte("m"), sig) != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	stop()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("the socket is left behind")
	}
	if _, err := c.Sign([]byte("m")); err == nil {
		t.Error("signed without an agent")
	}
	// A restarted agent is found again.
	stop = start(t, path, nil, bob)
	defer stop()
	if _, err := c.Sign([]byte("m")); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if only, err := Dial(path, "", nil); err != nil || only.SS58() != bob.SS58() {
		t.Errorf("the only key: %v %v", only, err)
	}
}

// An idle connection that died with the agent does not fail the next signature.
func TestReconnects(t *testing.T) {
	path, alice := socket(t), key(t, "//Alice")
	stop := start(t, path, nil, alice)
	c, err := Dial(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Sign(nil); err != nil {
		t.Fatal(err)
	}
	stop()
	defer start(t, path, nil, alice)()
	if _, err := c.Sign(nil); err != nil {
		t.Error(err)
	}
}

func TestOtherUser(t *testing.T) {
	path := socket(t)
	defer start(t, path, func(s *Server) {
		s.peer = func(*net.UnixConn) (int, error) { return os.Getuid() + 1, nil }
	}, key(t, "//Alice"))()
	var refused *Error
	if _, err := List(path, nil); !errors.As(err, &refused) || refused.Code != CodeRefused {
		t.Errorf("other user: %v", err)
	}
}

func TestPeerIsUs(t *testing.T) {
	path := socket(t)
	seen := make(chan int, 1)
	defer start(t, path, func(s *Server) {
		ask := s.peer
		s.peer = func(c *net.UnixConn) (int, error) {
			uid, err := ask(c)
			seen <- uid
			return uid, err
		}
	}, key(t, "//Alice"))()
	if _, err := List(path, nil); err != nil {
		t.Fatal(err)
	}
	if uid := <-seen; uid != os.Getuid() {
		t.Errorf("uid %d", uid)
	}
}

func TestProtocol(t *testing.T) {
	path, alice := socket(t), key(t, "//Alice")
	defer start(t, path, nil, alice)()
	for line, want := range map[string]string{
		`{"op":"list"}`: `{"keys":["` + alice.SS58() + `"]}`,
		`{}`:            `{"code":"bad_request","error":"op is neither list, sign nor extrinsic"}`,
		`{"op":"key"}`:  `{"code":"bad_request","error":"op is neither list, sign nor extrinsic"}`,
		`x`:             `{"code":"bad_request","error":"line is not a JSON object of this protocol"}`,
		`{"op":"sign","ss58":"` + alice.SS58() + `","message":"!"}`:                `{"code":"bad_request","error":"line is not a JSON object of this protocol"}`,
		`{"op":"sign","ss58":"x"}`:                                                 `{"code":"unknown_key","error":"the agent has no such key"}`,
		`{"op":"sign","message":"` + strings.Repeat("AAAA", MaxMessage/3+1) + `"}`: `{"code":"too_large","error":"message of 65538 bytes: at most 65536"}`,
		strings.Repeat(" ", maxLine+1):                                             `{"code":"too_large","error":"line over 102400 bytes"}`,
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(line + "\n")); err != nil {
			t.Error(err)
		}
		got, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%.60s: %s %v", line, got, err)
		}
		conn.Close()
	}
}

func TestConnectionLimit(t *testing.T) {
	path := socket(t)
	defer start(t, path, nil, key(t, "//Alice"))()
	for range 4 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("{\"op\":\"list\"}\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	var refused *Error
	if _, err := List(path, nil); !errors.As(err, &refused) || refused.Code != CodeBusy {
		t.Errorf("fifth connection: %v", err)
	}
}

// A false agent cannot pass off a signature.
func TestFalseAgent(t *testing.T) {
	path, alice, bob := socket(t), key(t, "//Alice"), key(t, "//Bob")
	defer start(t, path, func(s *Server) { s.keys[alice.SS58()] = bob }, alice)()
	c, err := Dial(path, alice.SS58(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if sig, err := c.Sign([]byte("m")); !errors.Is(err, auth.ErrBadSignature) {
		t.Errorf("%x %v", sig, err)
	}
}

func TestEd25519(t *testing.T) {
	path := socket(t)
	ed, err := auth.KeyFromSchemeURI(auth.Ed25519, "//Alice")
	if err != nil {
		t.Fatal(err)
	}
	defer start(t, path, nil, ed)()
	c, err := Dial(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if sig, err := c.Sign([]byte("m")); err != nil || auth.VerifyPublic(auth.Ed25519, ed.Public(), []byte("m"), sig) != nil {
		t.Error(err)
	}
}

func TestListen(t *testing.T) {
	path := socket(t)
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("second agent: %v", err)
	}
	// What a killed agent leaves is replaced.
	ln.SetUnlinkOnClose(false)
	ln.Close()
	if ln, err = Listen(path); err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	ln.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("open directory: %v", err)
	}
	if _, err := Listen(filepath.Join(filepath.Dir(path), strings.Repeat("x", maxPath))); err == nil {
		t.Error("long path")
	}
	if _, err := New(Config{}); err == nil {
		t.Error("agent without a key")
	}
}

func FuzzAnswer(f *testing.F) {
	alice := key(f, "//Alice")
	s, err := New(Config{Keys: []auth.Signer{alice}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"op":"sign","ss58":"` + alice.SS58() + `","message":"AAAA"}`))
	f.Add([]byte(`{"op":"list"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a := s.answer(line, &asker{})
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
		if sig, err := hex.DecodeString(a.Signature); err != nil || a.Signature != "" && len(sig) != auth.SignatureSize || a.Error == nil && a.Signature == "" && a.Keys == nil {
			t.Fatalf("%q: %+v", line, a)
		}
	})
}
