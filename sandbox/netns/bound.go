package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What sockets hold is kernel memory, and not all of it is charged to the box:
// the first cgroup charges none of a TCP socket's unless it has a limit of its
// own, and neither version charges what arrives on a connection that nobody has
// accepted. So the namespace bounds each socket, and the driver bounds how many
// there are: see MaxSockets. The filter keeps programs from asking for more
// (SO_SNDBUF, SO_RCVBUF).
var settings = []struct {
	name, value string
	extra       bool // slows an attack down; not every kernel lets a user namespace set it
}{
	{"ipv4/tcp_rmem", "4096 65536 131072", false}, // bytes: least, at first, most
	{"ipv4/tcp_wmem", "4096 16384 131072", false},
	{"core/somaxconn", "256", true},           // connections that wait to be accepted
	{"ipv4/tcp_max_tw_buckets", "4096", true}, // what closed connections leave
}

// socketBytes is what one socket of a connection holds at most: of each pair one
// sends and one receives.
const socketBytes = 128 << 10

// MaxSockets is how many internet sockets a box of so much memory may have: as
// many as fill its memory, and enough for small boxes to use doors.
func MaxSockets(memoryBytes int64) int { return int(max(memoryBytes/socketBytes, 512)) }

// bound applies the settings to the calling thread's namespace.
func bound() error {
	for _, s := range settings {
		if err := os.WriteFile("/proc/sys/net/"+s.name, []byte(s.value), 0); err != nil && !s.extra {
			return fmt.Errorf("bound sockets: %w", err)
		}
	}
	return nil
}

// counters are the files that count the sockets of the namespace in which they
// were opened. IPv6 may be absent.
var counters = []string{"sockstat", "sockstat6"}

// openCounter opens a counter of the calling thread's namespace. Without the file it returns -1.
func openCounter(name string) (int, error) {
	fd, err := unix.Open("/proc/thread-self/net/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("open socket counter: %w", err)
	}
	return fd, nil
}

// Bound says why the sockets of the namespace are not bounded, nil if they are.
func (n *NS) Bound() error { return n.bound }

// Sockets counts the internet sockets of the namespace: open, and closed ones
// that still send.
func (n *NS) Sockets() (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts == nil {
		for _, c := range counters {
			fd, err := n.counter(c)
			if err != nil {
				return 0, err
			}
			if fd >= 0 {
				n.counts = append(n.counts, os.NewFile(uintptr(fd), c))
			}
		}
	}
	total := 0
	buf := make([]byte, 1024)
	for _, f := range n.counts {
		got, err := f.ReadAt(buf, 0)
		if got == 0 && err != nil {
			return 0, fmt.Errorf("count sockets: %w", err)
		}
		total += inUse(string(buf[:got]))
	}
	return total, nil
}

// counter opens a counter in the namespace. n.mu is held.
func (n *NS) counter(name string) (fd int, err error) {
	if n.child != nil {
		return n.child.ask(request{Counter: name})
	}
	if n.file == nil {
		return -1, os.ErrClosed
	}
	err = enter(n.file, func() (err error) { fd, err = openCounter(name); return err })
	return fd, err
}

// inUse adds the sockets in use of TCP and UDP: "TCP: inuse 3 orphan 0 …".
func inUse(text string) (n int) {
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) < 3 || f[1] != "inuse" {
			continue
		}
		switch f[0] {
		case "TCP:", "UDP:", "TCP6:", "UDP6:":
			k, _ := strconv.Atoi(f[2])
			n += k
		}
	}
	return n
}

// CanBound tells whether a namespace made here has bounded sockets.
func CanBound() error {
	n, err := New()
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	if n.bound != nil {
		return n.bound
	}
	_, err = n.Sockets()
	return err
}
