package runsc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// Bounds of a link. What comes over it may come from hostile code.
const (
	maxLine     = 300
	maxLinks    = 512 // connections at once
	helloTime   = 10 * time.Second
	readyTime   = 30 * time.Second
	answerTime  = 10 * time.Second
	killTime    = 10 * time.Second
	socketMode  = 0o666 // the directory above is the box's own
	doorBacklog = 128
)

// link is the host's end of a box's only way out: a unix socket that the box's
// first process connects to (see the entry program). The socket is the box's
// identity: no other box can reach it.
type link struct {
	l     net.Listener
	doors []*door
	ready chan struct{} // closed when the control connection is there
	done  chan struct{} // closed by close

	mu      sync.Mutex // guards what follows
	control net.Conn
	next    int
	wait    map[int]chan answer
	conns   map[net.Conn]bool
	once    sync.Once
}

// answer is what a request on the control connection led to.
type answer struct {
	conn net.Conn
	text string
	n    int
}

// listen opens the socket at path, for n doors.
func listen(path string, n int) (*link, error) {
	// A path of 108 bytes is the most that a unix address holds; a directory
	// descriptor makes any path short.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	u, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	u.(*net.UnixListener).SetUnlinkOnClose(false) // its directory goes with the box
	if err := os.Chmod(path, socketMode); err != nil {
		_ = u.Close()
		return nil, err
	}
	k := &link{l: u, ready: make(chan struct{}), done: make(chan struct{}), wait: map[int]chan answer{}, conns: map[net.Conn]bool{}}
	for range n {
		k.doors = append(k.doors, &door{k: k, conns: make(chan net.Conn, doorBacklog), closed: make(chan struct{})})
	}
	go k.accept()
	return k, nil
}

func (k *link) accept() {
	slots := make(chan struct{}, maxLinks)
	for {
		select {
		case slots <- struct{}{}:
		case <-k.done:
			return
		}
		c, err := k.l.Accept()
		if err != nil {
			select {
			case <-k.done:
				return
			default: // out of descriptors: that passes
				time.Sleep(10 * time.Millisecond)
				<-slots
				continue
			}
		}
		t := &tracked{Conn: c, free: func() {
			k.mu.Lock()
			delete(k.conns, c)
			k.mu.Unlock()
			<-slots
		}}
		k.mu.Lock()
		k.conns[c] = true
		k.mu.Unlock()
		go k.hello(t)
	}
}

// hello reads the first line of a connection and hands the rest to who waits for it.
func (k *link) hello(c *tracked) {
	_ = c.SetReadDeadline(time.Now().Add(helloTime)) //nolint:forbidigo // a deadline of a real socket
	line, err := readLine(c)
	_ = c.SetReadDeadline(time.Time{})
	if err != nil {
		_ = c.Close()
		return
	}
	kind, arg, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(arg)
	switch {
	case line == "C":
		k.mu.Lock()
		first := k.control == nil
		if first {
			k.control = c
		}
		k.mu.Unlock()
		if first {
			close(k.ready)
			k.answers(c)
		}
	case kind == "L" && err == nil && n >= 0 && n < len(k.doors):
		if k.doors[n].give(c) {
			return
		}
	case kind == "R" && err == nil:
		if k.answer(n, answer{conn: c}) {
			return
		}
	}
	_ = c.Close()
}

// readLine reads up to a line end, byte by byte, because what follows is not ours.
func readLine(r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxLine {
		if _, err := io.ReadFull(r, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[0])
	}
	return "", errors.New("line too long")
}

// answers reads the control connection until it ends.
func (k *link) answers(c net.Conn) {
	r := bufio.NewReaderSize(c, maxLine+16)
	for {
		raw, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		f := strings.SplitN(strings.TrimSpace(string(raw)), " ", 3)
		if len(f) != 3 {
			continue
		}
		id, err := strconv.Atoi(f[1])
		if err != nil {
			continue
		}
		n, _ := strconv.Atoi(f[2])
		k.answer(id, answer{text: f[2], n: n})
	}
}

func (k *link) answer(id int, a answer) bool {
	k.mu.Lock()
	ch := k.wait[id]
	delete(k.wait, id)
	k.mu.Unlock()
	if ch == nil {
		return false
	}
	ch <- a // has room for one
	return true
}

// ask sends one request and waits for its answer.
func (k *link) ask(ctx context.Context, patience time.Duration, format string, a ...any) (answer, error) {
	k.mu.Lock()
	k.next++
	id, ch, c := k.next, make(chan answer, 1), k.control
	if c == nil {
		k.mu.Unlock()
		return answer{}, errors.New("the box's first process has not answered")
	}
	k.wait[id] = ch
	_ = c.SetWriteDeadline(time.Now().Add(patience)) //nolint:forbidigo // a deadline of a real socket
	_, err := fmt.Fprintf(c, format+"\n", append([]any{id}, a...)...)
	k.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	if err == nil {
		select {
		case got := <-ch:
			return got, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-k.done:
			err = net.ErrClosed
		case <-t.C:
			err = errors.New("the box's first process does not answer")
		}
	}
	k.mu.Lock()
	delete(k.wait, id)
	k.mu.Unlock()
	select {
	case got := <-ch: // came while we gave up
		if got.conn != nil {
			_ = got.conn.Close()
		}
	default:
	}
	return answer{}, err
}

// dial connects to a port inside.
func (k *link) dial(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("dial port %d in the box: no such port", port)
	}
	a, err := k.ask(ctx, answerTime, "D %d %d", port)
	if err != nil {
		return nil, fmt.Errorf("dial port %d in the box: %w", port, err)
	}
	if a.conn == nil {
		return nil, fmt.Errorf("dial port %d in the box: %.200q", port, a.text)
	}
	return a.conn, nil
}

// killAll kills every process but the first.
func (k *link) killAll() error {
	a, err := k.ask(context.Background(), killTime, "K %d")
	if err != nil {
		return err
	}
	if a.n != 0 {
		return fmt.Errorf("kill box: %d processes are still there", a.n)
	}
	return nil
}

// close ends every connection.
func (k *link) close() error {
	var err error
	k.once.Do(func() {
		close(k.done)
		err = k.l.Close()
		k.mu.Lock()
		defer k.mu.Unlock()
		for c := range k.conns {
			_ = c.Close()
		}
	})
	return err
}

// tracked frees its place when closed.
type tracked struct {
	net.Conn
	once sync.Once
	free func()
}

func (t *tracked) Close() error {
	err := t.Conn.Close()
	t.once.Do(t.free)
	return err
}

// CloseWrite passes the end of one direction on.
func (t *tracked) CloseWrite() error {
	if w, ok := t.Conn.(*net.UnixConn); ok {
		return w.CloseWrite()
	}
	return nil
}

// door is a listener whose connections come over the link.
type door struct {
	k      *link
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (d *door) give(c net.Conn) bool {
	select {
	case d.conns <- c:
		return true
	case <-d.closed:
	case <-d.k.done:
	}
	return false
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.closed:
	case <-d.k.done:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return d.k.l.Addr() }

var _ net.Listener = (*door)(nil)

// errSpecNetwork refuses a dial into a box that shares the host's network.
var errSpecNetwork = fmt.Errorf("%w: the box has the host's network", sandbox.ErrSpec)
