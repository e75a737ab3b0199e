package netns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// childArg as the only argument makes this program the keeper of a namespace.
const childArg = "agon-box-child"

// childFD is where the keeper finds its socket.
const childFD = 3

// request is one line to the keeper; the answer carries a socket or an error text.
type request struct {
	Listen  string `json:"listen,omitempty"`  // address for a listener
	Socket  bool   `json:"socket,omitempty"`  // an unconnected IPv4 TCP socket
	Counter string `json:"counter,omitempty"` // one of counters
	Bound   bool   `json:"bound,omitempty"`   // whether sockets are bounded; the answer carries nothing
}

// child is the keeper process of a namespace made without root.
type child struct {
	cmd  *exec.Cmd
	mu   sync.Mutex // one request at a time
	sock *os.File
	once sync.Once
	err  error
	// bound says why its sockets are not bounded.
	bound error
}

// startChild starts this program again in a new user and network namespace.
func startChild() (*child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "keeper-child")
	defer func() { _ = theirs.Close() }()
	cmd := exec.Command("/proc/self/exe", childArg)
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.ExtraFiles = []*os.File{theirs}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("make user namespace: %w (are unprivileged user namespaces allowed here?)", err)
	}
	c := &child{cmd: cmd, sock: ours}
	// The first answer says that the loopback device is up.
	if _, err := c.receive(); err != nil {
		_ = c.close()
		return nil, fmt.Errorf("start network keeper: %w: %.300s", err, stderr.String())
	}
	_, c.bound = c.ask(request{Bound: true})
	return c, nil
}

// ask sends a request and returns the socket in the answer.
func (c *child) ask(r request) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := json.Marshal(r)
	if err != nil {
		return -1, err
	}
	if err := unix.Sendto(int(c.sock.Fd()), b, unix.MSG_NOSIGNAL, nil); err != nil {
		return -1, fmt.Errorf("ask network keeper: %w", err)
	}
	fd, err := c.receive()
	if err == nil && fd < 0 && r.Counter == "" && !r.Bound {
		err = errors.New("network keeper sent no socket")
	}
	return fd, err
}

// receive reads one answer: "ok" with or without a descriptor, or an error text.
func (c *child) receive() (int, error) {
	buf, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, on, _, _, err := unix.Recvmsg(int(c.sock.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, on, _, _, err = unix.Recvmsg(int(c.sock.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return -1, err
	}
	if n == 0 {
		return -1, errors.New("network keeper has ended")
	}
	if s := string(buf[:n]); s != "ok" {
		return -1, errors.New(s)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil || len(msgs) == 0 {
		return -1, err
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("network keeper sent a strange answer")
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return -1, err
	}
	return fds[0], nil
}

// close ends the keeper and waits for it.
func (c *child) close() error {
	c.once.Do(func() {
		_ = c.sock.Close()
		_ = c.cmd.Process.Kill()
		var exit *exec.ExitError
		if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			c.err = err
		}
	})
	return c.err
}

// MaybeChild must be the first call of main, and of TestMain in tests that make
// boxes without root. Where the program was started as the keeper of a network
// namespace it serves as such and does not return; else it does nothing.
func MaybeChild() {
	if len(os.Args) != 2 || os.Args[1] != childArg {
		return
	}
	if err := keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keep answers requests until the other side closes.
func keep() error {
	if err := loopbackUp(); err != nil {
		return err
	}
	limits := bound()
	reply := func(fd int, err error) error {
		text, oob := "ok", []byte(nil)
		if err != nil {
			text = err.Error()
		} else if fd >= 0 {
			oob = unix.UnixRights(fd)
			defer func() { _ = unix.Close(fd) }()
		}
		return unix.Sendmsg(childFD, []byte(text), oob, nil, unix.MSG_NOSIGNAL)
	}
	if err := reply(-1, nil); err != nil {
		return err
	}
	buf := make([]byte, 512)
	for {
		n, err := unix.Read(childFD, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		var r request
		if err := json.Unmarshal(buf[:n], &r); err != nil {
			return err
		}
		fd := -1
		switch {
		case r.Listen != "":
			var a *net.TCPAddr
			if a, err = net.ResolveTCPAddr("tcp", r.Listen); err == nil {
				fd, err = listenSocket(a)
			}
		case r.Bound:
			err = limits
		case r.Counter != "":
			fd, err = -1, errors.New("unknown socket counter")
			if slices.Contains(counters, r.Counter) {
				fd, err = openCounter(r.Counter)
			}
		default:
			fd, _, err = socketFor(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		}
		if err := reply(fd, err); err != nil {
			return err
		}
	}
}
