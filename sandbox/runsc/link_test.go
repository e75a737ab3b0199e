package runsc

import (
	"bufio"
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
	c    net.Conn
	r    *bufio.Reader
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
	i := &insider{t: t, path: path}
	return k, i
}

func (i *insider) control(k *link) {
	i.c = i.dial("C\n")
	i.r = bufio.NewReader(i.c)
	<-k.ready
}

func TestLink(t *testing.T) {
	k, in := newLink(t, 2)
	if _, err := k.dial(t.Context(), 80); err == nil {
		t.Error("dialled before there was a control connection")
	}
	in.control(k)
	for _, port := range []int{0, -1, 70000} {
		if _, err := k.dial(t.Context(), port); err == nil {
			t.Errorf("dialled port %d", port)
		}
	}
	// A dial that works, one that is refused, a kill that leaves something.
	go func() {
		for {
			line, err := in.r.ReadString('\n')
			if err != nil {
				return
			}
			var id, port int
			switch {
			case strings.HasPrefix(line, "D"):
				_, _ = fmt.Sscanf(line, "D %d %d", &id, &port)
				if port == 81 {
					_, _ = fmt.Fprintf(in.c, "E %d connection refused\n", id)
					continue
				}
				_, _ = fmt.Fprintf(in.dial(fmt.Sprintf("R %d\n", id)), "port %d", port)
			case strings.HasPrefix(line, "K"):
				_, _ = fmt.Sscanf(line, "K %d", &id)
				_, _ = fmt.Fprintf(in.c, "nonsense\nK x 1\nE\nK 999 0\nK %d 3\n", id)
			}
		}
	}()
	c, err := k.dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 7)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "port 80" {
		t.Errorf("%q, %v", buf, err)
	}
	if _, err := k.dial(t.Context(), 81); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	if err := k.killAll(); err == nil || !strings.Contains(err.Error(), "3 processes") {
		t.Errorf("got %v", err)
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
	if err := k.killAll(); err == nil {
		t.Error("killed over a closed link")
	}
}

// What hostile code says to the socket closes its connection, and nothing else.
func TestLinkHostile(t *testing.T) {
	k, in := newLink(t, 1)
	in.control(k)
	for _, s := range []string{"C\n", "L 1\n", "L -1\n", "L\n", "R 1\n", "R -1\n", "R x\n", "K 1\n", "\n", strings.Repeat("x", 400) + "\n", "C\nK 1 0\n", "L 0x0\n", "\x00\n"} {
		c := in.dial(s)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
			t.Errorf("%.20q: %d bytes, %v", s, n, err)
		}
	}
	go func() {
		line, _ := in.r.ReadString('\n')
		var id int
		_, _ = fmt.Sscanf(line, "K %d", &id)
		_, _ = fmt.Fprintf(in.c, "K %d 0\n", id)
	}()
	if err := k.killAll(); err != nil {
		t.Errorf("the control connection was harmed: %v", err)
	}
}

func FuzzHello(f *testing.F) {
	for _, s := range []string{"C\n", "L 0\nx", "R 1\n", "L 99999999999999999999\n", "C\nE 1 x\nK 1 0\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k := &link{ready: make(chan struct{}), done: make(chan struct{}), wait: map[int]chan answer{}, conns: map[net.Conn]bool{}}
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
