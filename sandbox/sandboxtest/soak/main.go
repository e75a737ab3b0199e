// Command soak plays boxes for a long time, many at once, and looks whether
// anything stays: files, goroutines, mounts, cgroups, memory. It also kills a
// process that plays boxes, at random, and looks what a restart leaves.
//
//	go run ./sandbox/sandboxtest/soak -driver runc -boxes 50 -for 10m
//	go run ./sandbox/sandboxtest/soak -driver runsc -wait 10s -boxes 50
//	go run ./sandbox/sandboxtest/soak -driver runc -kills 200
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

type options struct {
	driver, state, root string
	boxes, kills        int
	length, wait        time.Duration
	child               bool
}

func main() {
	netns.MaybeChild()
	var o options
	flag.StringVar(&o.driver, "driver", "", "driver; empty takes the strongest that works")
	flag.StringVar(&o.state, "state", "", "state directory; empty makes one")
	flag.IntVar(&o.boxes, "boxes", 50, "boxes at once")
	flag.DurationVar(&o.length, "for", 30*time.Second, "how long")
	flag.DurationVar(&o.wait, "wait", 0, "instead: every box waits so long on its door, once")
	flag.IntVar(&o.kills, "kills", 0, "instead: kill a process that plays boxes so many times")
	flag.BoolVar(&o.child, "child", false, "be the process that is killed")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.root, err = rootfs.Ensure(ctx, rootfs.Config{Log: os.Stderr}); err != nil {
		return err
	}
	if o.state == "" {
		if o.state, err = tempdir.Make("soak"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tempdir.Remove(o.state)) }()
	}
	if o.kills > 0 {
		return kill(o)
	}
	d, _, err := probe.Probe(ctx, probe.Config{Rootfs: o.root, StateDir: o.state, Want: o.driver})
	if err != nil {
		return err
	}
	if o.child {
		return play(ctx, d, o, nil)
	}
	fmt.Printf("%s %s, %d boxes at once\n", d.Info().Name, d.Info().Version, o.boxes)
	if o.wait > 0 {
		return waiting(ctx, d, o)
	}
	return soak(ctx, d, o)
}

// one plays a box: an overlay, a door, a command that writes, works and waits.
func one(ctx context.Context, d sandbox.Driver, o options, source, gate, program string) error {
	b, err := d.Start(ctx, sandbox.Spec{
		Name: "soak", Rootfs: o.root,
		Mounts: []sandbox.Mount{{Kind: sandbox.MountOverlay, Source: source, Target: "/repo"}, {Kind: sandbox.MountScratch, Target: "/sandbox"}},
		Doors:  []sandbox.Door{{Listen: "127.0.0.1:8000", Target: gate}},
		Limits: agon.Limits{MemoryBytes: 128 << 20, Pids: 32, DiskBytes: 16 << 20, Inodes: 1000, OutputBytes: 64 << 10, CPUMilli: 1000, WallMS: 120_000},
	})
	if err != nil {
		return err
	}
	var out strings.Builder
	e, err := b.Exec(ctx, sandbox.Cmd{Args: []string{"python3", "-I", "-c", program}, Stdout: &out, Stderr: &out, Untrusted: true})
	if err == nil && (e.Code != 0 || e.Lost != "") {
		err = fmt.Errorf("%+v: %.300s", e, out.String())
	}
	return errors.Join(err, b.Close())
}

const program = `
import os, urllib.request
open("/repo/a", "a").write("more"); open("/sandbox/r", "w").write("x" * 1000)
if os.fork() == 0:
    os.setsid()
    import time; time.sleep(1000)
urllib.request.urlopen("http://127.0.0.1:8000/").read()
os._exit(0)
`

// play plays boxes until ctx ends; done counts them.
func play(ctx context.Context, d sandbox.Driver, o options, done *atomic.Int64) error {
	source, err := tempdir.Make("soaksource")
	if err != nil {
		return err
	}
	defer func() { _ = tempdir.Remove(source) }()
	if err := os.WriteFile(filepath.Join(source, "a"), []byte("lower"), 0o644); err != nil {
		return err
	}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		_, _ = w.Write([]byte("ok"))
	}))
	defer gate.Close()
	errs := make(chan error, o.boxes)
	var wg sync.WaitGroup
	for range o.boxes {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := one(context.WithoutCancel(ctx), d, o, source, gate.URL, program); err != nil {
					errs <- err
					return
				}
				if done != nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	var all error
	for e := range errs {
		all = errors.Join(all, e)
	}
	return all
}

// state is what may grow.
type state struct {
	fds, goroutines, mounts, groups, procs, rssMB int
}

func look(stateDir string) state {
	count := func(dir string) int { e, _ := os.ReadDir(dir); return len(e) }
	var s state
	s.fds, s.goroutines = count("/proc/self/fd"), runtime.NumGoroutine()
	list, _ := mounts(stateDir)
	s.mounts = len(list)
	for _, c := range []string{"memory", "pids", "cpu", "freezer", "unified", ""} {
		s.groups += count(filepath.Join("/sys/fs/cgroup", c, "agon"))
	}
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, c := range children {
		b, _ := os.ReadFile(c)
		s.procs += len(strings.Fields(string(b)))
	}
	b, _ := os.ReadFile("/proc/self/statm")
	var pages, rss int
	_, _ = fmt.Sscan(string(b), &pages, &rss)
	s.rssMB = rss * os.Getpagesize() >> 20
	return s
}

func soak(ctx context.Context, d sandbox.Driver, o options) error {
	// A first round makes what stays on purpose: idle threads, id maps, pools.
	warm, cancel := context.WithTimeout(ctx, max(o.length/10, 3*time.Second))
	err := play(warm, d, o, nil)
	cancel()
	if err != nil {
		return err
	}
	before := settle(o.state)
	fmt.Printf("before  %+v\n", before)
	var done atomic.Int64
	ctx, cancel = context.WithTimeout(ctx, o.length)
	defer cancel()
	start := time.Now()
	if err := play(ctx, d, o, &done); err != nil {
		return err
	}
	after := settle(o.state)
	fmt.Printf("after   %+v\n%d boxes in %v, %.1f/s\n", after, done.Load(), time.Since(start).Round(time.Second), float64(done.Load())/time.Since(start).Seconds())
	switch {
	case after.mounts > before.mounts, after.procs > before.procs:
		return errors.New("mounts or processes are left")
	case after.fds > before.fds+10, after.goroutines > before.goroutines+10:
		return errors.New("descriptors or goroutines grow")
	case after.rssMB > before.rssMB+before.rssMB/4+16:
		return errors.New("memory grows")
	}
	return leftBehind(o.state)
}

// settle looks when what ends on its own has ended.
func settle(stateDir string) state {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := look(stateDir)
	for range 20 {
		runtime.GC()
		time.Sleep(100 * time.Millisecond)
		n := look(stateDir)
		if n.fds >= s.fds && n.goroutines >= s.goroutines {
			return n
		}
		s = n
	}
	return s
}

// waiting starts boxes that only wait for an answer: they must not wait for each other.
func waiting(ctx context.Context, d sandbox.Driver, o options) error {
	source, err := tempdir.Make("soaksource")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(source) }()
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { time.Sleep(o.wait); _, _ = w.Write([]byte("ok")) }))
	defer gate.Close()
	errs := make([]error, o.boxes)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range o.boxes {
		wg.Go(func() {
			errs[i] = one(ctx, d, o, source, gate.URL, "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/').read()")
		})
	}
	wg.Wait()
	took := time.Since(start)
	fmt.Printf("%d boxes that wait %v each ended within %v\n", o.boxes, o.wait, took.Round(10*time.Millisecond))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("BenchmarkWaiting 1 %.2f s\n", took.Seconds())
	return leftBehind(o.state)
}

// kill starts and kills a process that plays boxes, again and again, and sweeps
// after each as a restart does.
func kill(o options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	swept, dirs := 0, 0
	for i := range o.kills {
		c := exec.Command(self, "-child", "-driver", o.driver, "-state", o.state, "-boxes", fmt.Sprint(min(o.boxes, 4)))
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(200+rand.IntN(1800)) * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
		n, err := probe.Sweep(o.state)
		if err != nil {
			return fmt.Errorf("sweep after kill %d: %w", i+1, err)
		}
		m, err := tempdir.Sweep("")
		if err != nil {
			return fmt.Errorf("sweep after kill %d: %w", i+1, err)
		}
		swept, dirs = swept+n, dirs+m
		if err := leftBehind(o.state); err != nil {
			return fmt.Errorf("after kill %d: %w", i+1, err)
		}
	}
	fmt.Printf("%d kills, %d boxes and %d temporary directories swept, nothing left\n", o.kills, swept, dirs)
	if swept == 0 {
		return errors.New("no kill met a box")
	}
	return nil
}

// leftBehind looks for directories, mounts, cgroups and processes of boxes.
func leftBehind(stateDir string) (err error) {
	// A process that was being started when its parent died ends by itself.
	for range 30 {
		if err = remains(stateDir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// mounts lists those of the boxes of a state directory. Other processes on the
// machine have their own, which come and go.
func mounts(stateDir string) (out []string, err error) {
	at, err := layers.MountDir(stateDir)
	if err != nil {
		return nil, err
	}
	m, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(m)) {
		if strings.Contains(l, stateDir) || strings.Contains(l, at) {
			out = append(out, strings.TrimSpace(l))
		}
	}
	return out, nil
}

func remains(stateDir string) error {
	var left []string
	ents, _ := os.ReadDir(filepath.Join(stateDir, "boxes"))
	for _, e := range ents {
		left = append(left, "directory "+e.Name())
	}
	list, err := mounts(stateDir)
	if err != nil {
		return err
	}
	for _, l := range list {
		left = append(left, "mount "+l)
	}
	more, err := probe.Leftovers(stateDir)
	if err != nil {
		return err
	}
	for _, id := range more {
		left = append(left, "box "+id)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if p == fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			continue
		}
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), stateDir) {
			left = append(left, "process "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("%d things are left: %.500s", len(left), strings.Join(left, "; "))
	}
	return nil
}
