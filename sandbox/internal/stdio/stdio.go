// Package stdio carries a command's output from a pipe to a writer, bounded.
package stdio

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Out is one output stream of a command.
type Out struct {
	// W is the end for the child. The owner closes it after the child started.
	W *os.File

	r     *os.File
	w     io.Writer
	left  int64
	over  func()
	cut   bool
	first []byte
	done  chan struct{} // closed when the reader goroutine ended
	once  sync.Once
}

// New makes a pipe whose bytes go to w (nil discards them), at most limit; over
// is called once when there are more. Reading goes on after that, so that the
// writer never blocks on a full pipe.
func New(w io.Writer, limit int64, over func()) (*Out, error) {
	r, cw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	widen(cw)
	return &Out{W: cw, r: r, w: w, left: limit, over: over, done: make(chan struct{})}, nil
}

// pipeBytes is what a pipe holds: a box that writes much waits less often for its
// reader. Where the kernel gives less, it stays as it is.
const pipeBytes = 512 << 10

func widen(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}

// Start begins to read.
func (o *Out) Start() {
	go func() {
		defer close(o.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := o.r.Read(buf)
			o.take(buf[:n])
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					o.drain(buf)
				}
				return
			}
		}
	}()
}

func (o *Out) take(p []byte) {
	const keep = 256
	if n := keep - len(o.first); n > 0 {
		o.first = append(o.first, p[:min(n, len(p))]...)
	}
	if int64(len(p)) > o.left {
		p = p[:o.left]
		if !o.cut {
			o.cut = true
			o.over()
		}
	}
	o.left -= int64(len(p))
	if o.w != nil && len(p) > 0 {
		_, _ = o.w.Write(p) // the reader's trouble must not stall the child
	}
}

// drain takes what the ended command left in the pipe. Daemons of it may still
// write; they get no more than one pipe's worth.
func (o *Out) drain(buf []byte) {
	if err := o.r.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	raw, err := o.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < 1<<20; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			var rerr error
			if n, rerr = unix.Read(int(fd), buf); rerr != nil {
				n = 0
			}
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		total += n
		o.take(buf[:n])
	}
}

// Finish is called after the command ended: it takes what is in the pipe and
// closes it. First returns valid bytes afterwards.
func (o *Out) Finish() {
	o.once.Do(func() {
		_ = o.W.Close()
		_ = o.r.SetReadDeadline(time.Unix(1, 0))
		<-o.done
		_ = o.r.Close()
	})
}

// Discard frees an Out that was never started.
func (o *Out) Discard() {
	_ = o.W.Close()
	_ = o.r.Close()
}

// First returns the first bytes of the stream, at most 256.
func (o *Out) First() []byte { return o.first }

// In feeds r to a child through a pipe. It returns the child's end, which the
// owner closes after the start, and a func that ends the feeding; a reader that
// blocks for ever keeps one goroutine until it returns.
func In(r io.Reader) (child *os.File, stop func(), err error) {
	if r == nil {
		f, err := os.Open(os.DevNull)
		return f, func() {}, err
	}
	child, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	widen(w)
	go func() {
		_, _ = io.Copy(struct{ io.Writer }{w}, r)
		_ = w.Close()
	}()
	return child, func() { _ = w.Close() }, nil
}
