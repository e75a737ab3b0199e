// Command entry is the first process of a box under gVisor. It is the box's end
// of the link to the host: it listens where the box's doors are and relays what
// connects, dials what the host asks for, and kills everything else when told.
//
// It imports the standard library only: it is built apart, into a static program.
//
// The link is one unix socket that the host listens on. Every connection starts
// with one line from here: "C" for the control connection, "L n" for a
// connection that came through door n, "R id" for one that was dialled. On the
// control connection the host sends "D id port" and "K id"; the answers are
// "E id text" for a dial that failed and "K id n" when n other processes are left.
//
// Code in the box may talk to the socket too. It gains nothing: the doors are
// open to it anyway, and what it fakes of the control connection is refused,
// because there is only one, opened before anything else runs.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxConns bounds what is relayed at once; more connections wait.
const maxConns = 128

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until standard input ends: a box does not outlive who made it.
func run(socket string, doors []string) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go reap(children)
	dial := func(hello string) (net.Conn, error) {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_, err = io.WriteString(c, hello+"\n")
		}
		return c, err
	}
	for i, addr := range doors {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		go accept(l, func() (net.Conn, error) { return dial(fmt.Sprintf("L %d", i)) })
	}
	c, err := dial("C")
	if err != nil {
		return err
	}
	go control(c, dial)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// reap waits for orphans that came to us as the first process.
func reap(children <-chan os.Signal) {
	for range children {
		for {
			var ws syscall.WaitStatus
			if pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
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

// control does what the host asks. When the host is gone, so are we.
func control(c net.Conn, dial func(string) (net.Conn, error)) {
	var mu sync.Mutex // one answer at a time
	say := func(format string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(c, format+"\n", a...)
	}
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		var id, port int
		switch line = strings.TrimSpace(line); {
		case scan(line, "D %d %d", &id, &port):
			go func() {
				in, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 10*time.Second)
				if err != nil {
					say("E %d %s", id, err)
					return
				}
				out, err := dial(fmt.Sprintf("R %d", id))
				if err != nil {
					_ = in.Close()
					say("E %d %s", id, err)
					return
				}
				relay(in, out)
			}()
		case scan(line, "K %d", &id):
			say("K %d %d", id, killAll())
		}
	}
}

func scan(line, format string, a ...any) bool {
	n, err := fmt.Sscanf(line, format, a...)
	return err == nil && n == len(a)
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
