package sandboxtest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// usable demands that the box can be used after a command was ended by a limit.
func usable(t *testing.T, b sandbox.Box) {
	t.Helper()
	if got := must(t, b, "echo usable"); got != "usable\n" {
		t.Errorf("box is not usable: %q", got)
	}
	if e := b.End(); e != (sandbox.End{}) {
		t.Errorf("end of a running box: %+v", e)
	}
}

func testWall(t *testing.T, s *suite) {
	b := s.start(t, nil)
	start := time.Now()
	r := exec(t, b, sandbox.Cmd{Wall: 400 * time.Millisecond, Untrusted: true, Args: []string{"python3", "-c", `
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: break
open("/work/started", "w").close()
while True: time.sleep(1)`}})
	if r.Limit != "wall" || r.Code != 137 || r.Signal != 9 || r.Lost != "" {
		t.Error(r)
	}
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("took %v", d)
	}
	// Everything of the command is gone, under every driver.
	if got := must(t, b, "test -e /work/started; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null"); strings.Contains(got, "SIG_IGN") {
		t.Errorf("left running: %q", got)
	}
	usable(t, b)
	// The spec's limit counts where the command names none.
	b = s.start(t, func(sp *sandbox.Spec) { sp.Limits.WallMS = 300 })
	if r := sh(t, b, "sleep 100"); r.Limit != "wall" {
		t.Error(r)
	}
}

func testOutput(t *testing.T, s *suite) {
	b := s.start(t, nil)
	for _, to := range []string{"out", "err"} {
		var n int64
		r := exec(t, b, sandbox.Cmd{
			Args:   []string{"python3", "-c", "import sys, time\nf = sys.std" + to + "\nfor _ in range(50): f.write('x' * (1 << 20)); f.flush()\ntime.sleep(1000)"},
			Stdout: writer(func(p []byte) { n += int64(len(p)) }),
		})
		if to == "err" {
			n = int64(len(r.err))
		}
		if r.Limit != "output" || n != limits().OutputBytes {
			t.Errorf("std%s: %d bytes, %+v", to, n, r.Exit)
		}
	}
	// A quick command may have ended before its output was looked at.
	r := exec(t, b, sandbox.Cmd{Args: []string{"head", "-c", "1100000", "/dev/zero"}, Stdout: writer(func([]byte) {})})
	if r.Limit != "output" {
		t.Error(r.Exit)
	}
	r = exec(t, b, sandbox.Cmd{Args: []string{"head", "-c", "1048576", "/dev/zero"}, Stdout: writer(func([]byte) {})})
	if r.Limit != "" || r.Code != 0 {
		t.Errorf("exactly the bound: %+v", r.Exit)
	}
	usable(t, b)
}

func testMemory(t *testing.T, s *suite) {
	hard := s.claims(t, "memory")
	b := s.start(t, func(sp *sandbox.Spec) { sp.Limits.MemoryBytes = 96 << 20 })
	eat := "b = []\nwhile True: b.append(bytearray(1 << 20))"
	r := py(t, b, eat)
	if r.Code == 0 || r.Lost != "" || hard && r.Limit != "memory" {
		t.Error(r)
	}
	if slices.Contains(s.Driver.Info().Limits, "memory_box") {
		// All processes of such a box are one for the host: the limit ends the box.
		if e := b.End(); !e.Ended || e.Limit != "memory" || e.Killed != "" {
			t.Errorf("end %+v", e)
		}
		b = s.start(t, func(sp *sandbox.Spec) { sp.Limits.MemoryBytes = 96 << 20 })
		r = py(t, b, "import os, signal\nfor _ in range(8):\n    if os.fork() == 0:\n        b = bytearray(30 << 20); signal.pause()\nos.wait(); os._exit(9)")
		if r.Limit != "memory" || r.Lost != "" {
			t.Error(r)
		}
		return
	}
	usable(t, b)
	// A child that is killed does not doom a parent that goes on.
	r = py(t, b, "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', '''"+eat+"''']).returncode != 0)")
	if r.Code != 0 || r.Limit != "" || r.out != "True\n" {
		t.Error(r)
	}
	if !hard {
		return
	}
	// Together many processes have no more than one.
	r = py(t, b, "import os, signal\nfor _ in range(8):\n    if os.fork() == 0:\n        b = bytearray(30 << 20); signal.pause()\n"+
		"os.wait(); os._exit(9)")
	if r.Code == 0 || r.Limit != "memory" {
		t.Error(r)
	}
	usable(t, b)
}

// Files in memory stay when a command ends; what they leave may not suffice for
// the next one, which is not the host's fault.
func testFull(t *testing.T, s *suite) {
	b := s.start(t, func(sp *sandbox.Spec) { sp.Limits.MemoryBytes, sp.Limits.DiskBytes = 48<<20, 48<<20 })
	for range 4 {
		r := exec(t, b, sandbox.Cmd{Untrusted: true, Args: []string{"sh", "-c", "for f in /work/a /tmp/b /dev/shm/c; do dd if=/dev/zero of=$f bs=1M count=100; done"}})
		if r.Lost != "" || r.Limit != "" && r.Limit != "memory" && r.Limit != "disk" {
			t.Error(r)
		}
		if e := b.End(); e.Killed != "" || e.Ended && e.Limit != "memory" {
			t.Errorf("end %+v", e)
		}
		if b.End().Ended {
			break
		}
	}
}

func testPids(t *testing.T, s *suite) {
	if !s.claims(t, "pids") {
		return
	}
	b := s.start(t, nil)
	r := py(t, b, `
import os, time
n = 0
try:
    while n < 5000:
        if os.fork() == 0:
            time.sleep(60); os._exit(0)
        n += 1
except OSError as e:
    print(e.errno)
print(n)`)
	f := strings.Fields(r.out)
	if len(f) != 2 || f[0] != "11" || r.Lost != "" {
		t.Fatal(r)
	}
	if n := f[1]; n < "50" || n > "64" || len(n) != 2 {
		t.Errorf("%s forks with a limit of 64", n)
	}
	// What one command left may keep the next from starting: its own doing.
	b = s.start(t, nil)
	r = py(t, b, "import os, time\ntry:\n    while True:\n        if os.fork() == 0: os.setsid(); time.sleep(1000)\nexcept OSError: os._exit(0)")
	if r.Lost != "" {
		t.Error(r)
	}
	if r = sh(t, b, "true"); r.Lost != "" || r.Code != 0 && r.Limit != "pids" {
		t.Errorf("in a full box: %v", r)
	}
	b = s.start(t, nil)
	r = exec(t, b, sandbox.Cmd{Args: []string{"sh", "-c", "f() { f | f & }; f; sleep 100"}, Wall: 2 * time.Second, Untrusted: true})
	if r.Lost != "" {
		t.Error(r)
	}
	if err := b.Close(); err != nil {
		t.Errorf("close after a fork bomb: %v", err)
	}
}

func testCPU(t *testing.T, s *suite) {
	b := s.start(t, func(sp *sandbox.Spec) { sp.Limits.CPUMS = 1000; sp.Limits.WallMS = 60_000 })
	r := py(t, b, "while True: pass")
	if r.Limit != "cpu" || r.Lost != "" {
		t.Error(r)
	}
	if s.claims(t, "cpu_time") && (r.CPU < 500*time.Millisecond || r.CPU > 5*time.Second) {
		t.Errorf("CPU time %v with a limit of 1 s", r.CPU)
	}
	// Work that is given to a process that nobody waits for counts as well.
	const apart = `import os, time
out, into = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os.write(into, b"x")
        time.sleep(60)
    os._exit(0)
os.read(out, 1)
os._exit(0)`
	b = s.start(t, func(*sandbox.Spec) {})
	if r = py(t, b, apart); s.claims(t, "cpu_time") && (r.Code != 0 || r.CPU < 250*time.Millisecond || r.CPU > 2*time.Second) {
		t.Errorf("CPU time %v of 0.3 s in a process of another session: %+v", r.CPU, r)
	}
}

func testDisk(t *testing.T, s *suite) {
	hard := s.claims(t, "disk")
	wait := "sleep 1" // soft limits are looked at now and then
	if hard {
		wait = "true"
	}
	write := "dd if=/dev/zero of=/work/%s bs=1M count=100 2>&1; "
	b := s.start(t, func(sp *sandbox.Spec) { sp.Limits.OutputBytes = 1 << 20 })
	r := sh(t, b, strings.ReplaceAll(write, "%s", "a")+strings.ReplaceAll(write, "%s", "b")+
		"dd if=/dev/zero of=/work/c bs=1M count=100; "+wait+"; stat -c %s /work/a /work/b")
	if r.Lost != "" {
		t.Fatal(r)
	}
	if hard {
		if !strings.Contains(r.out, "No space left") || r.Limit != "" {
			t.Error(r)
		}
		usable(t, b)
	} else if r.Limit != "disk" {
		t.Errorf("no soft limit either: %v", r)
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		r := sh(t, b, "dd if=/dev/zero of="+dir+"/x bs=1M count=200; "+wait+"; stat -c %s "+dir+"/x; rm -f "+dir+"/x")
		if r.Code == 0 && strings.Contains(r.out, "209715200") {
			t.Errorf("%s took 200 MB: %v", dir, r)
		}
	}
}

func testInodes(t *testing.T, s *suite) {
	hard := s.claims(t, "inodes")
	wait := "\ntime.sleep(1)"
	if hard {
		wait = ""
	}
	b := s.start(t, func(sp *sandbox.Spec) { sp.Limits.Inodes = 1000 })
	for _, dir := range []string{"/work", "/tmp", "/dev/shm"} {
		r := py(t, b, "import time\nn = 0\ntry:\n    while n < 30000:\n        open('"+dir+"/f%d' % n, 'w').close(); n += 1\nexcept OSError as e: print(e.errno)\nprint(n)"+wait)
		f := strings.Fields(r.out)
		switch {
		case hard && (len(f) != 2 || f[0] != "28"):
			t.Errorf("%s: %v", dir, r)
		case !hard && r.Limit != "disk":
			t.Errorf("%s: no soft limit either: %v", dir, r)
		}
	}
}

// Quotas too large for memory lie on the host's disk and are polled.
func testLargeDisk(t *testing.T, s *suite) {
	large := func(sp *sandbox.Spec) {
		sp.Limits.DiskBytes, sp.Limits.Inodes = 4<<30, 200
		sp.Mounts = append(sp.Mounts, sandbox.Mount{Kind: sandbox.MountOverlay, Source: t.TempDir(), Target: "/work/repo"})
	}
	b := s.start(t, large)
	must(t, b, "echo one > /work/a; echo two > /work/repo/b")
	for p, want := range map[string]string{"/work/a": "one\n", "/work/repo/b": "two\n"} {
		if got, err := b.ReadFile(p, 10); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", p, got, err)
		}
	}
	r := py(t, b, "import time\nfor i in range(1000): open('/work/%d' % i, 'w').close()\ntime.sleep(1000)")
	if r.Limit != "disk" || r.Lost != "" {
		t.Error(r)
	}
	b = s.start(t, large)
	must(t, b, "echo two > /work/repo/b")
	l, err := b.Layer(t.Context(), "/work/repo")
	if err != nil {
		t.Fatal(err)
	}
	b = s.start(t, func(sp *sandbox.Spec) {
		sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Layer: l, Target: "/repo"}}
	})
	if got := must(t, b, "cat /repo/b"); got != "two\n" {
		t.Errorf("over a layer on disk: %q", got)
	}
	if err := errors.Join(b.Close(), l.Remove()); err != nil {
		t.Error(err)
	}
}

func testSelfKill(t *testing.T, s *suite) {
	b := s.start(t, nil)
	for _, script := range []string{
		"kill -9 $$", "kill -9 -1", "kill -9 1; kill -9 $$", "kill -9 0", "kill -9 $PPID; kill -9 $$",
		"for p in 1 2 3 4 5 6 7 8 9 10 11 12; do kill -9 $p; done; kill -9 $$",
	} {
		r := sh(t, b, script)
		if r.Lost != "" || r.Limit != "" || r.Code == 0 {
			t.Errorf("%s: %v", script, r)
		}
		usable(t, b)
	}
	// The first process cannot be written, traced or stopped.
	r := py(t, b, `
import os, signal
for name in ("mem", "attr/current", "oom_score_adj"):
    try:
        fd = os.open("/proc/1/" + name, os.O_RDWR); os.pwrite(fd, b"999", 0x400000); print("wrote", name)
    except OSError: pass
for sig in (signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGHUP):
    try: os.kill(1, sig)
    except OSError: pass
print("end")`)
	if strings.Contains(r.out, "wrote mem") || r.Lost != "" {
		t.Error(r)
	}
	usable(t, b)
}

func testKilled(t *testing.T, s *suite) {
	b := s.start(t, nil)
	h, ok := b.(interface{ HostPID() int })
	if !ok {
		t.Fatal("the box does not tell its HostPID")
	}
	kill := sync.OnceFunc(func() {
		p, err := os.FindProcess(h.HostPID())
		if err == nil {
			err = p.Signal(syscall.SIGKILL)
		}
		if err != nil {
			t.Errorf("kill %d: %v", h.HostPID(), err)
		}
	})
	r := exec(t, b, sandbox.Cmd{Args: []string{"sh", "-c", "echo up; sleep 1000"}, Untrusted: true, Stdout: writer(func([]byte) { kill() })})
	if r.Lost != "killed" || r.Limit != "" {
		t.Error(r)
	}
	if e := b.End(); !e.Ended || e.Killed != "killed" || e.Closed || e.Limit != "" {
		t.Errorf("end %+v", e)
	}
	if _, err := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); err == nil {
		t.Error("a dead box took a command")
	}
}
