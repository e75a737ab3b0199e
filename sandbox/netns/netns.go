// Package netns makes the network of a box: a namespace with nothing but a
// loopback device, whose listening sockets belong to this process. Code inside
// can reach them and nothing else; the listener a connection comes from says
// which box it is, so no secret has to be put inside.
//
// Root makes the namespace on a thread of its own. Others start a copy of this
// program in a new user and network namespace, which makes the sockets and
// hands them over (see MaybeChild).
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// NS is a network namespace. Safe for concurrent use.
type NS struct {
	mu     sync.Mutex
	file   *os.File   // the namespace, when made by this process
	child  *child     // its keeper, when made by a child
	counts []*os.File // see Sockets
	bound  error      // why its sockets are not bounded; not changed after the start
}

// New makes a namespace with its loopback device up. Nothing of it is visible
// in the file system: it goes with Close, or with this process.
func New() (*NS, error) {
	if os.Geteuid() != 0 {
		c, err := startChild()
		if err != nil {
			return nil, err
		}
		return &NS{child: c, bound: c.bound}, nil
	}
	var file *os.File
	var limits error
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		if err := loopbackUp(); err != nil {
			return err
		}
		limits = bound()
		f, err := os.Open(threadNS())
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		file = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &NS{file: file, bound: limits}, nil
}

// Of opens the network namespace of a process, which must be the box's own, sets
// its loopback device up and bounds its sockets. It needs root.
func Of(pid int) (*NS, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	n := &NS{file: f}
	if err := n.Do(func() error { n.bound = bound(); return loopbackUp() }); err != nil {
		_ = f.Close()
		return nil, err
	}
	return n, nil
}

func threadNS() string { return fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()) }

// onThread runs f on a thread that may change its namespace and puts the thread
// back. A thread that cannot be put back is thrown away.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		old, err := os.Open(threadNS())
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		defer func() { _ = old.Close() }()
		err = f()
		if unix.Setns(int(old.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// loopbackUp sets lo up in the calling thread's namespace.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer func() { _ = unix.Close(s) }()
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	return nil
}

// Do runs f on a thread inside the namespace, for example to start a process there.
// Only for namespaces of this process (root).
func (n *NS) Do(f func() error) error {
	n.mu.Lock()
	file := n.file
	n.mu.Unlock()
	if file == nil {
		return errors.New("enter network namespace: not of this process")
	}
	return enter(file, f)
}

// enter runs f on a thread in the namespace.
func enter(file *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// Path names the namespace for a program that joins it by path. It is valid
// while this process lives and the namespace is open. Empty without root.
func (n *NS) Path() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd())
}

// ChildPID is the process whose user and network namespace are to be joined
// when the namespace was made without root; else 0.
func (n *NS) ChildPID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.child == nil {
		return 0
	}
	return n.child.cmd.Process.Pid
}

// Listen opens a TCP listener inside, at a literal loopback address.
func (n *NS) Listen(addr string) (net.Listener, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil || a.IP == nil || !a.IP.IsLoopback() {
		return nil, fmt.Errorf("listen on %q inside the box: not a loopback address", addr)
	}
	var fd int
	if n.child != nil {
		fd, err = n.child.ask(request{Listen: a.String()})
	} else {
		err = n.Do(func() (err error) { fd, err = listenSocket(a); return err })
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s inside the box: %w", addr, err)
	}
	f := os.NewFile(uintptr(fd), "door")
	defer func() { _ = f.Close() }()
	return net.FileListener(f)
}

func listenSocket(a *net.TCPAddr) (int, error) {
	fd, sa, err := socketFor(a)
	if err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		if err = unix.Bind(fd, sa); err == nil {
			err = unix.Listen(fd, 128)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func socketFor(a *net.TCPAddr) (int, unix.Sockaddr, error) {
	family := unix.AF_INET6
	var sa unix.Sockaddr
	if v4 := a.IP.To4(); v4 != nil {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(v4)}
	} else {
		sa = &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	return fd, sa, err
}

// Dial connects to 127.0.0.1:port inside. The socket is made inside; where it
// connects from then on does not depend on the thread.
func (n *NS) Dial(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("dial port %d in the box: no such port", port)
	}
	var fd int
	var err error
	if n.child != nil {
		fd, err = n.child.ask(request{Socket: true})
	} else {
		err = n.Do(func() (err error) {
			fd, _, err = socketFor(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("dial port %d in the box: %w", port, err)
	}
	f := os.NewFile(uintptr(fd), "dial")
	defer func() { _ = f.Close() }()
	if err := connect(ctx, fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, fmt.Errorf("dial port %d in the box: %w", port, err)
	}
	return net.FileConn(f)
}

// connect waits for a non-blocking connect, at most until ctx ends or 10 s.
func connect(ctx context.Context, fd int, sa unix.Sockaddr) error {
	err := unix.Connect(fd, sa)
	if !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(p, 20)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				return err
			}
			if code != 0 {
				return unix.Errno(code)
			}
			return nil
		}
	}
	return ctx.Err()
}

// Close lets the namespace go once nothing inside uses it. Listeners stay open. Idempotent.
func (n *NS) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.counts {
		_ = f.Close()
	}
	n.counts = nil
	if n.child != nil {
		return n.child.close()
	}
	if n.file != nil {
		err := n.file.Close()
		n.file = nil
		return err
	}
	return nil
}
