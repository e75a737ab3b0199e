// Package sandboxtest is the conformance and attack suite of sandbox drivers.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
)

// Config says what to test.
type Config struct {
	// Driver is under test; its state directory is StateDir.
	Driver   sandbox.Driver
	StateDir string
	// Rootfs holds python3, git and a shell.
	Rootfs string
}

// Run tests a driver against the contract of package sandbox. Limits that the
// driver does not claim are not demanded, and said to be so in the log.
func Run(t *testing.T, c Config) {
	s := &suite{Config: c}
	t.Logf("driver %+v, uid %d", c.Driver.Info(), os.Geteuid())
	for _, tt := range []struct {
		name string
		f    func(*testing.T, *suite)
	}{
		{"commands", testCommands},
		{"environment", testEnvironment},
		{"several executions", testSeveral},
		{"daemons", testDaemons},
		{"cancel", testCancel},
		{"spec", testSpec},
		{"devices", testDevices},
		{"doors", testDoors},
		{"door to what is dialled", testPipe},
		{"door abuse", testDoorAbuse},
		{"network", testNetwork},
		{"dial", testDial},
		{"wall", testWall},
		{"output", testOutput},
		{"memory", testMemory},
		{"full of files", testFull},
		{"pids", testPids},
		{"cpu time", testCPU},
		{"disk", testDisk},
		{"inodes", testInodes},
		{"large disk", testLargeDisk},
		{"self kill", testSelfKill},
		{"killed from outside", testKilled},
		{"escapes", testEscapes},
		{"mounts", testMounts},
		{"read hazards", testRead},
		{"overlay and layers", testLayers},
		{"parallel", testParallel},
		{"close", testClose},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.f(t, s) })
	}
	t.Run("nothing left", func(t *testing.T) { s.nothingLeft(t) })
}

type suite struct {
	Config
	mu  sync.Mutex
	ids []string
}

// claims tells whether the driver claims to enforce a limit, and says so if not.
func (s *suite) claims(t *testing.T, limit string) bool {
	t.Helper()
	if slices.Contains(s.Driver.Info().Limits, limit) {
		return true
	}
	t.Logf("NOT DEMANDED: %s does not claim to enforce %q here", s.Driver.Info().Name, limit)
	return false
}

func limits() agon.Limits {
	return agon.Limits{WallMS: 60_000, CPUMilli: 2000, MemoryBytes: 256 << 20, Pids: 64, DiskBytes: 32 << 20, Inodes: 4096, OutputBytes: 1 << 20}
}

func (s *suite) spec(edit func(*sandbox.Spec)) sandbox.Spec {
	sp := sandbox.Spec{
		Name: "test", Rootfs: s.Rootfs, Limits: limits(),
		Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/work"}},
	}
	if edit != nil {
		edit(&sp)
	}
	return sp
}

// start makes a box that is closed with the test.
func (s *suite) start(t *testing.T, edit func(*sandbox.Spec)) sandbox.Box {
	t.Helper()
	b, err := s.Driver.Start(t.Context(), s.spec(edit))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if h, ok := b.(interface{ ID() string }); ok {
		s.mu.Lock()
		s.ids = append(s.ids, h.ID())
		s.mu.Unlock()
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// nothingLeft looks for traces of all boxes of the suite.
func (s *suite) nothingLeft(t *testing.T) {
	for _, f := range []string{"boxes"} {
		ents, err := os.ReadDir(filepath.Join(s.StateDir, f))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range ents {
			t.Errorf("left directory %s", e.Name())
		}
	}
	m, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	groups := []string{}
	if h, err := cgroup.Detect(); err == nil {
		groups = h.List()
	}
	for _, id := range s.ids {
		if strings.Contains(string(m), id) {
			t.Errorf("left mounts of %s", id)
		}
		if slices.Contains(groups, id) {
			t.Errorf("left cgroup of %s", id)
		}
	}
	if len(s.ids) == 0 {
		t.Error("no box was seen")
	}
}

// result is what a command did.
type result struct {
	sandbox.Exit
	out, err string
}

func (r result) String() string {
	return fmt.Sprintf("%+v out %.400q err %.600q", r.Exit, r.out, r.err)
}

// exec runs a command that must be possible to run.
func exec(t *testing.T, b sandbox.Box, cmd sandbox.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errs
	e, err := b.Exec(t.Context(), cmd)
	if err != nil {
		t.Fatalf("exec %.80q: %v (%s)", cmd.Args, err, errs.String())
	}
	return result{e, out.String(), errs.String()}
}

func sh(t *testing.T, b sandbox.Box, script string) result {
	t.Helper()
	return exec(t, b, sandbox.Cmd{Args: []string{"sh", "-c", script}})
}

func py(t *testing.T, b sandbox.Box, script string) result {
	t.Helper()
	return exec(t, b, sandbox.Cmd{Args: []string{"python3", "-I", "-c", script}})
}

// must runs a shell script that has to succeed and returns its output.
func must(t *testing.T, b sandbox.Box, script string) string {
	t.Helper()
	r := sh(t, b, script)
	if r.Code != 0 || r.Limit != "" || r.Lost != "" {
		t.Fatalf("%.200s: %v", script, r)
	}
	return r.out
}

func testCommands(t *testing.T, s *suite) {
	b := s.start(t, nil)
	for _, tt := range []struct {
		name string
		cmd  sandbox.Cmd
		code int
		out  string
	}{
		{"print", sandbox.Cmd{Args: []string{"python3", "-c", "print(1)"}}, 0, "1\n"},
		{"exit 3", sandbox.Cmd{Args: []string{"sh", "-c", "exit 3"}}, 3, ""},
		{"exit 137", sandbox.Cmd{Args: []string{"sh", "-c", "exit 137"}}, 137, ""},
		{"exit 255", sandbox.Cmd{Args: []string{"sh", "-c", "exit 255"}}, 255, ""},
		{"terminated", sandbox.Cmd{Args: []string{"sh", "-c", "kill -TERM $$"}}, 143, ""},
		{"stdin", sandbox.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader("hello")}, 0, "hello"},
		{"unread stdin", sandbox.Cmd{Args: []string{"true"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))}, 0, ""},
		{"no stdin", sandbox.Cmd{Args: []string{"cat"}}, 0, ""},
		{"dir", sandbox.Cmd{Args: []string{"pwd"}, Dir: "/usr/bin"}, 0, "/usr/bin\n"},
		{"uid", sandbox.Cmd{Args: []string{"id", "-u"}}, 0, "1000\n"},
		{"gid", sandbox.Cmd{Args: []string{"id", "-g"}}, 0, "1000\n"},
		{"other uid", sandbox.Cmd{Args: []string{"id", "-u"}, UID: 1234}, 0, "1234\n"},
		{"missing", sandbox.Cmd{Args: []string{"no-such-program"}}, 127, ""},
		{"missing path", sandbox.Cmd{Args: []string{"/no/such/program"}}, 127, ""},
		{"missing dir", sandbox.Cmd{Args: []string{"true"}, Dir: "/no/such"}, 127, ""},
		{"not executable", sandbox.Cmd{Args: []string{"/etc/passwd"}}, 126, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := exec(t, b, tt.cmd)
			if r.Code != tt.code || r.out != tt.out || r.Limit != "" || r.Lost != "" {
				t.Errorf("want code %d, out %q; got %v", tt.code, tt.out, r)
			}
		})
	}
	if _, err := b.Exec(t.Context(), sandbox.Cmd{}); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("no command: %v", err)
	}
	if _, err := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}, UID: sandbox.PauseUID}); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("the first process's uid: %v", err)
	}
	if e := b.End(); e != (sandbox.End{}) {
		t.Errorf("end of a running box: %+v", e)
	}
}

func testEnvironment(t *testing.T, s *suite) {
	t.Setenv("AGON_SECRET", "of the host")
	b := s.start(t, func(sp *sandbox.Spec) { sp.Env = []string{"A=1", "B=spec"} })
	get := func(env ...string) string {
		return exec(t, b, sandbox.Cmd{Args: []string{"/usr/bin/env"}, Env: env, Dir: "/work"}).out
	}
	lines := func(s string) []string {
		l := strings.Split(strings.TrimSpace(s), "\n")
		slices.Sort(l)
		return l
	}
	if got, want := lines(get("B=command", "HOME=/work", "PATH=/usr/bin")), []string{"A=1", "B=command", "HOME=/work", "PATH=/usr/bin", "PWD=/work"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := lines(get()), []string{"A=1", "B=spec", "HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin", "PWD=/work"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testSeveral(t *testing.T, s *suite) {
	b := s.start(t, nil)
	must(t, b, "echo one > /work/a; echo two > /tmp/b; mkfifo /work/f")
	if got := must(t, b, "cat /work/a /tmp/b"); got != "one\ntwo\n" {
		t.Errorf("second execution read %q", got)
	}
	// Two at once: each waits for the other through a FIFO.
	var wg sync.WaitGroup
	wg.Go(func() { must(t, b, "echo ping > /work/f") })
	wg.Go(func() {
		if got := must(t, b, "cat /work/f"); got != "ping\n" {
			t.Errorf("read %q", got)
		}
	})
	wg.Wait()
}

func testDaemons(t *testing.T, s *suite) {
	b := s.start(t, nil)
	// A daemon that keeps the output pipe open must not hold the command up.
	start := time.Now()
	r := sh(t, b, "(setsid sh -c 'trap \"\" HUP TERM; while :; do sleep 1; done' & ) ; echo done")
	if r.out != "done\n" || r.Code != 0 {
		t.Errorf("%v", r)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	pids := s.strangers(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range pids {
		if alive(p) {
			t.Errorf("process %d outlived its box", p)
		}
	}
}

// strangers are the host's numbers of the processes in the box's cgroup, if it has one.
func (s *suite) strangers(t *testing.T, b sandbox.Box) []int {
	t.Helper()
	h, err := cgroup.Detect()
	id, ok := b.(interface{ ID() string })
	if err != nil || !ok {
		return nil
	}
	return h.Group(id.ID()).Procs()
}

// alive tells whether a process exists and is not a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func testCancel(t *testing.T, s *suite) {
	b := s.start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	e, err := b.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "echo up; sleep 1000"}, Stdout: writer(func([]byte) { cancel() })})
	if !errors.Is(err, context.Canceled) || e.Lost != "cancelled" {
		t.Errorf("%+v, %v", e, err)
	}
	if got := must(t, b, "echo still here"); got != "still here\n" {
		t.Errorf("after a cancelled command: %q", got)
	}
	if _, err := s.Driver.Start(ctx, s.spec(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("start with a dead context: %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func testSpec(t *testing.T, s *suite) {
	for _, tt := range []struct {
		name string
		edit func(*sandbox.Spec)
	}{
		{"name", func(sp *sandbox.Spec) { sp.Name = "../x" }},
		{"rootfs", func(sp *sandbox.Spec) { sp.Rootfs = "/no/such/root" }},
		{"uid", func(sp *sandbox.Spec) { sp.UID = sandbox.PauseUID }},
		{"source", func(sp *sandbox.Spec) {
			sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountOverlay, Source: "/no/such/dir", Target: "/repo"}}
		}},
		{"target", func(sp *sandbox.Spec) { sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/proc/x"}} }},
		{"through a link", func(sp *sandbox.Spec) {
			sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/bin/x"}}
		}},
		{"twice", func(sp *sandbox.Spec) { sp.Mounts = append(sp.Mounts, sp.Mounts[0]) }},
		{"layer", func(sp *sandbox.Spec) { sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Target: "/repo"}} }},
		{"foreign layer", func(sp *sandbox.Spec) {
			sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Target: "/repo", Layer: &sandbox.Layer{Dir: "/etc"}}}
		}},
		{"door", func(sp *sandbox.Spec) {
			sp.Doors = []sandbox.Door{{Listen: "0.0.0.0:80", Target: "http://127.0.0.1:1"}}
		}},
		{"door to two", func(sp *sandbox.Spec) {
			dial := func(context.Context) (net.Conn, error) { return nil, io.EOF }
			sp.Doors = []sandbox.Door{{Listen: "127.0.0.1:80", Target: "http://127.0.0.1:1", Dial: dial}}
		}},
		{"env", func(sp *sandbox.Spec) { sp.Env = []string{"novalue"} }},
		{"limit", func(sp *sandbox.Spec) { sp.Limits.Pids = -1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := s.Driver.Start(t.Context(), s.spec(tt.edit))
			if err == nil {
				_ = b.Close()
				t.Fatal("started")
			}
			if !errors.Is(err, sandbox.ErrSpec) {
				t.Errorf("got %v", err)
			}
		})
	}
	ents, _ := os.ReadDir(filepath.Join(s.StateDir, "boxes"))
	if len(ents) != 0 {
		t.Errorf("refused specs left %v", ents)
	}
}
