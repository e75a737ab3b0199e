package container

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of what passes between us and the first process.
const (
	maxRequest = 4 << 20 // bytes; arguments and environment of a command
	maxAnswer  = 4 << 10
	sendTime   = 30 * time.Second
)

// request is what the first process is asked for; see the entry program.
type request struct {
	ID       int
	Op       string
	Args     []string `json:",omitempty"`
	Env      []string `json:",omitempty"`
	Dir      string   `json:",omitempty"`
	UID, GID int
	Port     int `json:",omitempty"`
	Key      int `json:",omitempty"` // what a dialled connection says first
}

// Answer is how a request ended.
type Answer struct {
	ID     int
	Errno  int    // why a command did not start
	Text   string // why a dial failed
	N      int    // processes that a kill left
	Status uint32 // wait status of a command
	CPU    int64  // nanoseconds, of the command and of children that it has waited for
	Self   int64  // nanoseconds that the first process has used meanwhile
	MaxRSS int64  // bytes
}

var (
	errGone    = errors.New("the box's first process is gone")
	errTooLong = errors.New("arguments and environment are too long")
)

// control is our end of the first process's input. Safe for concurrent use.
type control struct {
	c     *net.UnixConn
	ready chan struct{} // closed when the first process can take requests
	done  chan struct{} // closed when it can take no more

	send sync.Mutex // one request at a time

	mu   sync.Mutex // guards what follows
	next int
	wait map[int]chan Answer
	gone bool
}

// newControl makes the pair of sockets and returns the first process's end too.
func newControl() (*control, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "first")
	c, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	k := &control{c: c.(*net.UnixConn), ready: make(chan struct{}), done: make(chan struct{}), wait: map[int]chan Answer{}}
	go k.answers()
	return k, theirs, nil
}

// answers dispatches replies to their waiters. A line longer than maxAnswer ends the connection.
func (k *control) answers() {
	defer func() {
		k.mu.Lock()
		k.gone = true
		k.mu.Unlock()
		close(k.done)
	}()
	r := bufio.NewReaderSize(k.c, maxAnswer)
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		var a Answer
		if json.Unmarshal(line, &a) != nil {
			return
		}
		if first {
			close(k.ready)
			continue
		}
		k.mu.Lock()
		ch := k.wait[a.ID]
		delete(k.wait, a.ID)
		k.mu.Unlock()
		if ch != nil {
			ch <- a // has room for one
		}
	}
}

// ask sends a request, with files beside it, and returns where the answer
// arrives. forget gives the answer up.
func (k *control) ask(r request, files ...*os.File) (id int, answer <-chan Answer, err error) {
	ch := make(chan Answer, 1)
	k.mu.Lock()
	if k.gone {
		k.mu.Unlock()
		return 0, nil, errGone
	}
	k.next++
	r.ID = k.next
	k.wait[r.ID] = ch
	k.mu.Unlock()
	if err := k.write(r, files); err != nil {
		k.forget(r.ID)
		return 0, nil, err
	}
	return r.ID, ch, nil
}

func (k *control) write(r request, files []*os.File) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(raw) > maxRequest {
		return errTooLong
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
			if err := unix.SetNonblock(fds[i], false); err != nil { // programs expect it
				return err
			}
		}
		oob = unix.UnixRights(fds...)
	}
	k.send.Lock()
	defer k.send.Unlock()
	// The first process only ever waits for us; if it does not, it is stopped.
	_ = k.c.SetWriteDeadline(time.Now().Add(sendTime)) //nolint:forbidigo // a deadline of a real socket
	if _, _, err = k.c.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), oob, nil); err == nil {
		_, err = k.c.Write(raw)
	}
	if err != nil {
		_ = k.c.Close() // half a request: nothing can follow it
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

func (k *control) forget(id int) {
	k.mu.Lock()
	delete(k.wait, id)
	k.mu.Unlock()
}

// call asks and waits.
func (k *control) call(ctx context.Context, patience time.Duration, r request) (Answer, error) {
	id, ch, err := k.ask(r)
	if err != nil {
		return Answer{}, err
	}
	defer k.forget(id)
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case a := <-ch:
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-k.done:
		return Answer{}, errGone
	case <-t.C:
		return Answer{}, errors.New("the box's first process does not answer")
	}
}

func (k *control) close() { _ = k.c.Close() }
