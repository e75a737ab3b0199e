// Command entry is the first process of a box with an OCI runtime. It starts the
// box's commands when the host asks for them, reaps them and tells how they
// ended. Under gVisor it is also the box's end of the link to the host: it
// listens where the doors are and relays what connects, dials what the host asks
// for, and kills everything else when told.
//
// It imports the standard library only: it is built apart, into a static program.
//
// Standard input is one end of a stream socket pair whose other end is the
// host's. A request is four bytes of length (big endian) and JSON, with three
// descriptors beside the length if it starts a command; an answer is a line of
// JSON. When the host's end closes, the box ends.
//
// Commands run as another user without any capability, so that hostile code can
// neither signal nor trace this process nor reach its descriptors.
//
// The box's system-call filter is installed here, for all threads, before the
// host is told that the box is ready: every command inherits it. A runtime would
// compile it anew at each start, which costs more than the rest of its work.
//
// Where an image of the box is to be taken, it starts a program ahead, which does what
// needs nothing of a box ("warm"). In a box made of the image it listens where that
// box's doors are ("thaw"), and the program becomes the command that is asked for.
package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	maxConns   = 128     // relayed at once; more connections wait
	maxRequest = 8 << 20 // bytes; the host sends less
	maxFilter  = 4096    // instructions, the kernel's limit
)

// request is what the host asks for: "exec", "kill", "dial", "warm" or "thaw".
type request struct {
	ID       int
	Op       string
	Args     []string
	Env      []string
	Dir      string
	UID, GID uint32
	Port     int
	Key      int // what a dialled connection says first
}

// answer ends a request.
type answer struct {
	ID     int
	Errno  int    `json:",omitempty"` // why a command did not start
	Text   string `json:",omitempty"` // why a dial failed
	N      int    `json:",omitempty"` // processes that a kill left
	Status uint32 `json:",omitempty"` // wait status
	CPU    int64  `json:",omitempty"` // nanoseconds, of the command and of children that it has waited for
	Self   int64  `json:",omitempty"` // nanoseconds that this process has used since the command began
	MaxRSS int64  `json:",omitempty"` // bytes
}

// command is one that runs.
type command struct {
	id   int
	self int64 // nanoseconds that this process had used before
}

// self is the processor time of this process, in nanoseconds.
func self() int64 {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru) // of ourselves it does not fail
	return ru.Utime.Nano() + ru.Stime.Nano()
}

// entry is the process. Commands that run are keyed by process number.
type entry struct {
	control *os.File // the host
	socket  string   // the link's, empty without one
	say     sync.Mutex
	jobs    chan func()

	mu      sync.Mutex // held from before a command starts until it is in running
	running map[int]command
	warm    *warm // nil without one
}

// warm is a program that waits to become a command.
type warm struct {
	pid      int
	args     []string
	uid, gid uint32
	socket   *os.File // our end of its socket
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until the control socket ends. args are the filter and then the
// link's socket and the doors' addresses, or nothing.
func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no filter")
	}
	if err := filter(args[0]); err != nil {
		return err
	}
	args = args[1:]
	// As first process of its namespace it would be spared these signals; the
	// runtime's handlers undo that. Commands get them with their defaults.
	ignored := make(chan os.Signal, 8)
	signal.Notify(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	go func() {
		for range ignored { // taken and forgotten
		}
	}()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	// No command may inherit the control socket.
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, 0, syscall.F_DUPFD_CLOEXEC, 10)
	if errno != 0 {
		return fmt.Errorf("keep control socket: %w", errno)
	}
	if err := toNull(0); err != nil {
		return err
	}
	e := &entry{control: os.NewFile(fd, "control"), running: map[int]command{}, jobs: make(chan func())}
	go e.reap(children)
	go clean(e.jobs, os.Getenv("ROOT") == "1")
	if len(args) > 0 {
		e.socket = args[0]
		if err := e.listen(args[1:]); err != nil {
			return err
		}
	}
	e.answer(answer{}) // ready
	return e.serve()
}

// listen opens the doors.
func (e *entry) listen(addrs []string) error {
	for i, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		go accept(l, func() (net.Conn, error) { return e.dial(fmt.Sprintf("L %d", i)) })
	}
	return nil
}

// filter installs a program of struct sock_filter, in base64, for every thread.
func filter(text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("read filter: %w", err)
	}
	if len(raw) == 0 || len(raw)%8 != 0 || len(raw)/8 > maxFilter {
		return fmt.Errorf("read filter: %d bytes", len(raw))
	}
	call := uintptr(317) // seccomp(2), which package syscall does not name everywhere
	if runtime.GOARCH == "arm64" {
		call = 277
	}
	program := struct {
		n    uint16
		code *byte
	}{uint16(len(raw) / 8), &raw[0]}
	const setModeFilter, allThreads = 1, 1
	thread, _, errno := syscall.Syscall(call, setModeFilter, allThreads, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(raw)
	if errno != 0 {
		return fmt.Errorf("install filter: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("install filter: thread %d has another", thread)
	}
	return nil
}

func toNull(fd int) error {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer func() { _ = syscall.Close(null) }()
	return syscall.Dup3(null, fd, 0)
}

// serve does what the host asks until it is gone.
func (e *entry) serve() error {
	for {
		var head [4]byte
		fds, err := e.head(head[:])
		if err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxRequest {
			return fmt.Errorf("a request of %d bytes", n)
		}
		raw := make([]byte, n)
		if _, err := io.ReadFull(e.control, raw); err != nil {
			return nil //nolint:nilerr // the host is gone
		}
		var r request
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		switch r.Op {
		case "exec":
			e.jobs <- func() { e.exec(r, fds) }
		case "kill":
			go func() { e.answer(answer{ID: r.ID, N: killAll()}) }()
		case "dial":
			go e.connect(r)
		case "warm":
			e.jobs <- func() { e.answer(answer{ID: r.ID, Errno: int(e.heat(r))}) }
		case "thaw":
			if err := e.listen(r.Args); err != nil {
				return err
			}
			e.answer(answer{ID: r.ID}) // ready
		default:
			return fmt.Errorf("unknown request %q", r.Op)
		}
	}
}

// head reads the length of the next request and the descriptors beside it.
func (e *entry) head(b []byte) (fds []int, err error) {
	oob := make([]byte, syscall.CmsgSpace(3*4))
	for got := 0; got < len(b); {
		n, on, _, _, err := syscall.Recvmsg(int(e.control.Fd()), b[got:], oob, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			os.Exit(0) // the host is gone, and the box goes with it
		}
		got += n
		if on == 0 {
			continue
		}
		msgs, err := syscall.ParseSocketControlMessage(oob[:on])
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			more, err := syscall.ParseUnixRights(&m)
			if err != nil {
				return nil, err
			}
			fds = append(fds, more...)
		}
	}
	return fds, nil
}

func (e *entry) answer(a answer) {
	raw, err := json.Marshal(a)
	if err != nil {
		os.Exit(1)
	}
	e.say.Lock()
	defer e.say.Unlock()
	if _, err := e.control.Write(append(raw, '\n')); err != nil {
		os.Exit(0)
	}
}

// rootCaps are what commands of a box that an image is built in may do to its
// files and to who they are: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID.
const rootCaps = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<6 | 1<<7

// clean does jobs on a thread whose children can never have a capability, or
// none but rootCaps where they are root.
func clean(jobs <-chan func(), root bool) {
	runtime.LockOSThread()
	for c := uintptr(0); c < 64; c++ {
		if root && rootCaps>>c&1 == 1 {
			continue
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_CAPBSET_DROP, c, 0) // EINVAL past the last
	}
	// Nothing is inheritable, and so nothing ambient either: what this thread has
	// (to change to the command's user) goes when it executes the command.
	head := struct {
		version uint32
		pid     int32
	}{version: 0x20080522}
	var sets [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&sets)), 0)
	if errno == 0 {
		sets[0].inheritable, sets[1].inheritable = 0, 0
		_, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&sets)), 0)
	}
	const ambient, clearAll = 47, 4
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, ambient, clearAll, 0, 0, 0, 0)
	}
	if errno != 0 {
		os.Exit(1) // better no box than one whose commands have capabilities
	}
	for j := range jobs {
		j()
	}
}

// exec starts a command; reap tells how it ends.
func (e *entry) exec(r request, fds []int) {
	from := self()
	defer func() {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}()
	errno := syscall.EINVAL
	if len(fds) == 3 && len(r.Args) > 0 {
		if e.resume(r, fds, from) {
			return
		}
		errno = e.start(r, fds, from)
	}
	if errno != 0 {
		e.answer(answer{ID: r.ID, Errno: int(errno)})
	}
}

func (e *entry) start(r request, fds []int, from int64) syscall.Errno {
	e.mu.Lock()
	defer e.mu.Unlock()
	pid, errno := spawn(r, fds)
	if errno == 0 {
		e.running[pid] = command{r.ID, from}
	}
	return errno
}

// spawn executes a request's program with fds as its first descriptors.
func spawn(r request, fds []int) (int, syscall.Errno) {
	file, errno := find(r.Args[0], r.Dir, r.Env)
	if errno != 0 {
		return 0, errno
	}
	files := make([]uintptr, len(fds))
	for i, fd := range fds {
		files[i] = uintptr(fd)
	}
	pid, err := syscall.ForkExec(file, r.Args, &syscall.ProcAttr{
		Dir: r.Dir, Env: r.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: r.UID, Gid: r.GID, Groups: []uint32{}}},
	})
	if err != nil {
		if errno, ok := err.(syscall.Errno); ok {
			return 0, errno
		}
		return 0, syscall.EINVAL
	}
	return pid, 0
}

// heat starts a program with a socket as descriptor 3, and waits for the byte by
// which it says that it waits. Nothing of the host's may be open in it: an image
// of the box is taken next.
func (e *entry) heat(r request) syscall.Errno {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return syscall.EIO
	}
	defer func() { _ = null.Close() }()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return syscall.EIO
	}
	w := &warm{args: r.Args, uid: r.UID, gid: r.GID, socket: os.NewFile(uintptr(pair[0]), "warm")}
	e.mu.Lock()
	n := int(null.Fd())
	pid, errno := spawn(r, []int{n, n, n, pair[1]})
	_ = syscall.Close(pair[1])
	if errno == 0 {
		w.pid, e.warm = pid, w
	}
	e.mu.Unlock()
	if errno != 0 {
		return errno
	}
	if _, err := w.socket.Read(make([]byte, 1)); err != nil { // it ended
		return syscall.EIO
	}
	return 0
}

// resume makes the warm program the command that r asks for, with its descriptors,
// directory and environment. It returns false if there is none, or it is another.
func (e *entry) resume(r request, fds []int, from int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.warm
	if w == nil || w.uid != r.UID || w.gid != r.GID || !slices.Equal(w.args, r.Args) {
		return false
	}
	e.warm = nil
	defer func() { _ = w.socket.Close() }()
	body := []byte(strings.Join(append([]string{r.Dir}, r.Env...), "\x00"))
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if err := syscall.Sendmsg(int(w.socket.Fd()), head, syscall.UnixRights(fds...), nil, 0); err != nil {
		return false
	}
	e.running[w.pid] = command{r.ID, from}
	_, _ = w.socket.Write(body) // if it has ended, it is reaped as the command
	return true
}

// find looks a program up as a shell would.
func find(name, dir string, env []string) (string, syscall.Errno) {
	if strings.Contains(name, "/") {
		return name, 0 // relative to dir, where it is executed
	}
	last := syscall.ENOENT
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for p := range strings.SplitSeq(list, ":") {
			if !path.IsAbs(p) {
				p = path.Join(dir, p)
			}
			p = path.Join(p, name)
			fi, err := os.Stat(p)
			switch {
			case err != nil || fi.IsDir():
			case fi.Mode()&0o111 == 0:
				last = syscall.EACCES
			default:
				return p, 0
			}
		}
	}
	return "", last
}

// reap takes every child that ended: commands, and orphans that came to us.
func (e *entry) reap(children <-chan os.Signal) {
	for range children {
		for {
			var ws syscall.WaitStatus
			var ru syscall.Rusage
			e.mu.Lock()
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
			c, ours := e.running[pid]
			delete(e.running, pid)
			if e.warm != nil && e.warm.pid == pid {
				e.warm = nil
			}
			e.mu.Unlock()
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			if ours {
				e.answer(answer{ID: c.id, Status: uint32(ws), CPU: ru.Utime.Nano() + ru.Stime.Nano(), Self: self() - c.self, MaxRSS: ru.Maxrss << 10})
			}
		}
	}
}

// dial opens a connection of the link.
func (e *entry) dial(hello string) (net.Conn, error) {
	c, err := net.Dial("unix", e.socket)
	if err == nil {
		_, err = io.WriteString(c, hello+"\n")
	}
	return c, err
}

// connect dials a port in the box for the host.
func (e *entry) connect(r request) {
	in, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), 10*time.Second)
	if err != nil {
		e.answer(answer{ID: r.ID, Text: err.Error()})
		return
	}
	out, err := e.dial(fmt.Sprintf("R %d", r.Key))
	if err != nil {
		_ = in.Close()
		e.answer(answer{ID: r.ID, Text: err.Error()})
		return
	}
	relay(in, out)
}

func accept(l net.Listener, dial func() (net.Conn, error)) {
	slots := make(chan struct{}, maxConns)
	for {
		slots <- struct{}{}
		in, err := l.Accept()
		if err != nil {
			<-slots
			time.Sleep(10 * time.Millisecond) // out of descriptors or memory: that passes
			continue
		}
		go func() {
			defer func() { <-slots }()
			out, err := dial()
			if err != nil {
				if out != nil {
					_ = out.Close()
				}
				_ = in.Close()
				return
			}
			relay(in, out)
		}()
	}
}

// relay copies both ways and passes the end of each direction on.
func relay(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, p := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(p[0], p[1])
			if w, ok := p[0].(interface{ CloseWrite() error }); ok {
				_ = w.CloseWrite()
			}
		})
	}
	wg.Wait()
	_ = a.Close()
	_ = b.Close()
}

// killAll kills every other process and returns how many are left, which is 0
// unless they fork faster than they are killed.
func killAll() int {
	end := time.Now().Add(4 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		n := others()
		if n == 0 || time.Now().After(end) {
			return n
		}
		time.Sleep(pause)
	}
}

// others counts the living processes but this one.
func others() (n int) {
	f, err := os.Open("/proc")
	if err != nil {
		return 1
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return 1
	}
	for _, p := range names {
		if p[0] < '1' || p[0] > '9' || p == "1" {
			continue
		}
		b, err := os.ReadFile("/proc/" + p + "/stat")
		if err != nil {
			continue
		}
		// A process may have ") Z" in its name.
		if i := strings.LastIndexByte(string(b), ')'); i < 0 || !strings.HasPrefix(string(b[i+1:]), " Z") {
			n++
		}
	}
	return n
}
