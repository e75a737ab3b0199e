package runsc

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// insider is the box's end of a link, as the entry program speaks it.
type insider struct {
	t    testing.TB
	path string
}

func (i *insider) dial(hello string) net.Conn {
	c, err := net.Dial("unix", i.path)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, hello); err != nil {
		i.t.Fatal(err)
	}
	return c
}

func newLink(t testing.TB, doors int) (*link, *insider) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	k, err := listen(path, doors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.close() })
	return k, &insider{t: t, path: path}
}

// refused tells whether the host closes c without a word.
func refused(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		return fmt.Errorf("%d bytes, %w", n, err)
	}
	return nil
}

func TestLink(t *testing.T) {
	k, in := newLink(t, 2)
	// A dialled connection goes to who expects it, once.
	key, conn := k.expect()
	hello := fmt.Sprintf("R %d\nport 80", key)
	in.dial(hello)
	c := <-conn
	buf := make([]byte, 7)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "port 80" {
		t.Errorf("%q, %v", buf, err)
	}
	k.forget(key)
	if err := refused(in.dial(hello)); err != nil {
		t.Errorf("a key that was used: %v", err)
	}
	// What comes for who does not wait any more is closed.
	key, conn = k.expect()
	late := in.dial(fmt.Sprintf("R %d\n", key))
	k.mu.Lock()
	back := k.wait[key]
	k.mu.Unlock()
	back <- <-conn // it has come, and nobody took it
	k.forget(key)
	if err := refused(late); err != nil {
		t.Errorf("too late: %v", err)
	}
	if len(k.wait) != 0 {
		t.Errorf("%d keys are kept", len(k.wait))
	}
	// Doors, each by its number.
	for n, d := range k.doors {
		out := in.dial(fmt.Sprintf("L %d\nhello", n))
		got, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(got, buf); err != nil || string(buf) != "hello" {
			t.Errorf("%q, %v", buf, err)
		}
		_ = got.Close()
		if _, err := out.Read(buf); err == nil {
			t.Error("the other end stays open")
		}
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
	if _, err := k.doors[0].Accept(); err == nil {
		t.Error("accepted on a closed link")
	}
}

// What hostile code says to the socket closes its connection, and nothing else.
func TestLinkHostile(t *testing.T) {
	k, in := newLink(t, 1)
	key, conn := k.expect()
	for _, s := range []string{"C\n", "L 1\n", "L -1\n", "L\n", "R 1\n", "R -1\n", "R x\n", "K 1\n", "\n", strings.Repeat("x", 400) + "\n", "C\nK 1 0\n", "L 0x0\n", "\x00\n"} {
		if err := refused(in.dial(s)); err != nil {
			t.Errorf("%.20q: %v", s, err)
		}
	}
	in.dial(fmt.Sprintf("R %d\n", key))
	<-conn
}

func FuzzHello(f *testing.F) {
	for _, s := range []string{"C\n", "L 0\nx", "R 1\n", "L 99999999999999999999\n", "C\nE 1 x\nK 1 0\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k := &link{done: make(chan struct{}), wait: map[int]chan net.Conn{1: make(chan net.Conn, 1)}, conns: map[net.Conn]bool{}}
		k.doors = []*door{{k: k, conns: make(chan net.Conn, 1), closed: make(chan struct{})}}
		ours, theirs := net.Pipe()
		go func() { _, _ = theirs.Write(b); _ = theirs.Close() }()
		k.hello(&tracked{Conn: ours, free: func() {}})
		_ = ours.Close()
		_ = theirs.Close()
	})
}

func TestVersion(t *testing.T) {
	if v := Version(); !strings.HasPrefix(v, "v0.0.0-") {
		t.Errorf("version %q", v)
	}
	for _, p := range patches {
		if p.old == "" || p.old == p.new || !strings.HasSuffix(p.file, ".go") {
			t.Errorf("patch of %s", p.file)
		}
	}
	if _, err := Ensure(t.Context(), BuildConfig{Dir: t.TempDir(), Go: "no-such-tool"}); err == nil {
		// A build in another cache serves as well.
		if _, ok := Find(BuildConfig{}); !ok {
			t.Error("built by no tool")
		}
	}
}
