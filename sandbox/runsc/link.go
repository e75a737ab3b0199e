package runsc

import (
	"crypto/rand"
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
)

// Bounds of a link. What comes over it may come from hostile code.
const (
	maxLine     = 300
	maxLinks    = 512 // connections at once
	helloTime   = 10 * time.Second
	answerTime  = 10 * time.Second
	socketMode  = 0o666 // the directory above is the box's own
	doorBacklog = 128
)

// link is the host's end of a box's only way out: a unix socket that the box's
// first process connects to (see the entry program). The socket is the box's
// identity: no other box can reach it.
type link struct {
	l     net.Listener
	doors []*door
	done  chan struct{} // closed by close

	mu    sync.Mutex            // guards what follows
	wait  map[int]chan net.Conn // dialled connections by key
	conns map[net.Conn]bool
	once  sync.Once
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
	k := &link{l: u, done: make(chan struct{}), wait: map[int]chan net.Conn{}, conns: map[net.Conn]bool{}}
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

// hello reads the first line of a connection and hands the rest to its waiter.
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
	case kind == "L" && err == nil && n >= 0 && n < len(k.doors):
		if k.doors[n].give(c) {
			return
		}
	case kind == "R" && err == nil:
		if k.dialled(n, c) {
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

// expect returns a key that nobody in the box can guess, and where a connection
// arrives that says it.
func (k *link) expect() (key int, conn <-chan net.Conn) {
	var b [7]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	for _, v := range b {
		key = key<<8 | int(v)
	}
	ch := make(chan net.Conn, 1)
	k.mu.Lock()
	k.wait[key] = ch
	k.mu.Unlock()
	return key, ch
}

// forget gives a key up and closes what came too late for it.
func (k *link) forget(key int) {
	k.mu.Lock()
	ch := k.wait[key]
	delete(k.wait, key)
	k.mu.Unlock()
	select {
	case c := <-ch:
		_ = c.Close()
	default:
	}
}

// dialled hands a connection to who expects it.
func (k *link) dialled(key int, c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	ch := k.wait[key]
	if ch == nil {
		return false
	}
	select {
	case ch <- c: // has room for one
		return true
	default:
		return false
	}
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
