// Package cgroup reads, kills and removes the control groups of boxes, on the
// v1 hierarchies, on v2, and on hosts that mount both ("hybrid": v1 counts).
// Every box has one group, agon/<box id>, in each hierarchy.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultParent is the group above all boxes.
const DefaultParent = "agon"

// Host says where the hierarchies of this machine are mounted.
type Host struct {
	// V2 is the mount point of the unified hierarchy if it is the one that
	// holds the memory controller, else empty.
	V2 string
	// V1 maps controllers to mount points; "systemd" and the like are not in it.
	V1 map[string]string
	// Parent is the group above the boxes, "agon" from Detect.
	Parent string
	// all lists every cgroup mount, for removal.
	all []string

	warm    sync.Mutex // guards what follows; see KeepWarm
	callers int
	warming bool
	idle    int // rounds without a caller
}

// Detect reads the mount table.
func Detect() (*Host, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	h := parseMounts(string(b))
	if h.V2 != "" {
		c, err := os.ReadFile(filepath.Join(h.V2, "cgroup.controllers"))
		if err != nil || !slices.Contains(strings.Fields(string(c)), "memory") {
			h.V2 = ""
		}
	}
	return h, nil
}

func parseMounts(text string) *Host {
	h := &Host{V1: map[string]string{}, Parent: DefaultParent}
	for l := range strings.Lines(text) {
		pre, post, ok := strings.Cut(l, " - ")
		f, g := strings.Fields(pre), strings.Fields(post)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		dir := f[4]
		switch g[0] {
		case "cgroup2":
			if h.V2 == "" {
				h.V2 = dir
			}
			h.all = append(h.all, dir)
		case "cgroup":
			h.all = append(h.all, dir)
			for o := range strings.SplitSeq(g[2], ",") {
				if o == "rw" || o == "ro" || strings.Contains(o, "=") {
					continue
				}
				if _, dup := h.V1[o]; !dup {
					h.V1[o] = dir
				}
			}
		}
	}
	return h
}

// KeepWarm spares OCI runtimes a wait until stop is called. The kernel makes a
// process that moves between groups wait for an RCU grace period, 5 to 15 ms,
// unless another moved just before, and a runtime moves itself in and out again.
// So we move, every few milliseconds, to where we are, which changes nothing else.
// Callers share one goroutine, which ends some time after the last of them: who
// has started a box often starts another. Best effort.
func (h *Host) KeepWarm() (stop func()) {
	h.warm.Lock()
	defer h.warm.Unlock()
	h.callers++
	if !h.warming {
		h.warming = true
		go func() {
			for h.warmed() {
				h.move()
				time.Sleep(warmFor) // between moves, however long they take
			}
		}()
	}
	return sync.OnceFunc(func() {
		h.warm.Lock()
		h.callers--
		h.warm.Unlock()
	})
}

// warmFor is less than what the kernel's readiness lasts, one grace period.
const warmFor = 3 * time.Millisecond

// lingers is for how many rounds nobody needs to start a box before the last one.
const lingers = 30

// warmed tells whether somebody starts a box, or did not long ago.
func (h *Host) warmed() bool {
	h.warm.Lock()
	defer h.warm.Unlock()
	h.idle++
	if h.callers > 0 {
		h.idle = 0
	}
	h.warming = h.idle <= lingers
	return h.warming
}

// move moves this process to the group it is in.
func (h *Host) move() {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	for l := range strings.Lines(string(raw)) {
		f := strings.SplitN(strings.TrimSpace(l), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount := h.V2
		if f[1] != "" {
			mount = h.V1[f[1]]
		}
		if mount != "" && os.WriteFile(filepath.Join(mount, f[2], "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0) == nil {
			return
		}
	}
}

// Group is one box's group.
type Group struct {
	h    *Host
	name string
}

// Group returns the group of a box, which need not exist.
func (h *Host) Group(id string) *Group { return &Group{h: h, name: filepath.Join(h.Parent, id)} }

// Path is what an OCI runtime takes as cgroupsPath.
func (g *Group) Path() string { return "/" + g.name }

func (g *Group) dir(controller string) string {
	if g.h.V2 != "" {
		return filepath.Join(g.h.V2, g.name)
	}
	if m := g.h.V1[controller]; m != "" {
		return filepath.Join(m, g.name)
	}
	return ""
}

func (g *Group) read(controller, file string) string {
	d := g.dir(controller)
	if d == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(d, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (g *Group) number(controller, file string) int64 {
	n, _ := strconv.ParseInt(g.read(controller, file), 10, 64)
	return n
}

// field returns the value of a "key value" line.
func field(text, key string) int64 {
	for l := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(l), " "); ok && k == key {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}

// Memory is what the kernel counted about a group's memory.
type Memory struct {
	Kills int64 // processes that any out-of-memory killer took
	Own   bool  // the group reached its own limit
	Peak  int64 // bytes
}

// Memory reads the counters; zero where there is no memory controller.
func (g *Group) Memory() Memory {
	if g.h.V2 != "" {
		ev := g.read("memory", "memory.events")
		return Memory{Kills: field(ev, "oom_kill"), Own: field(ev, "oom") > 0, Peak: g.number("memory", "memory.peak")}
	}
	m := Memory{
		Kills: field(g.read("memory", "memory.oom_control"), "oom_kill"),
		Peak:  g.number("memory", "memory.max_usage_in_bytes"),
	}
	// v1 does not count the group's own out-of-memory events, and failed charges
	// not for every counter on every kernel. But a group that never came near
	// its limit was not killed for it. The slack is what the kernel charges ahead.
	const slack = 1 << 20
	near := func(usage, limit string) bool {
		l := g.number("memory", limit)
		return l > 0 && g.number("memory", usage) >= l-slack
	}
	m.Own = g.number("memory", "memory.failcnt") > 0 ||
		near("memory.max_usage_in_bytes", "memory.limit_in_bytes") ||
		near("memory.memsw.max_usage_in_bytes", "memory.memsw.limit_in_bytes")
	return m
}

// CPU is the processor time used by the group so far.
func (g *Group) CPU() time.Duration {
	if g.h.V2 != "" {
		return time.Duration(field(g.read("cpu", "cpu.stat"), "usage_usec")) * time.Microsecond
	}
	return time.Duration(g.number("cpuacct", "cpuacct.usage"))
}

// PidsRefused counts forks that the pids limit refused.
func (g *Group) PidsRefused() int64 { return field(g.read("pids", "pids.events"), "max") }

// Limits of a group that Create makes.
type Limits struct {
	MemoryBytes, Pids, CPUMilli int64
}

// Create makes the group and sets its limits. OCI runtimes do this themselves;
// it is for drivers that have none. On error the caller calls Remove.
func (g *Group) Create(l Limits) error {
	const period = 100_000
	quota := strconv.FormatInt(max(l.CPUMilli*period/1000, 1000), 10)
	memory, pids := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(l.Pids, 10)
	write := func(controller, file, v string) error {
		if err := os.WriteFile(filepath.Join(g.dir(controller), file), []byte(v), 0); err != nil {
			return fmt.Errorf("set cgroup limit: %w", err)
		}
		return nil
	}
	if g.h.V2 != "" {
		for _, d := range []string{g.h.V2, filepath.Join(g.h.V2, g.h.Parent)} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
			if err := os.WriteFile(filepath.Join(d, "cgroup.subtree_control"), []byte("+memory +pids +cpu"), 0); err != nil {
				return fmt.Errorf("enable cgroup controllers: %w", err)
			}
		}
		if err := os.Mkdir(g.dir("memory"), 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if err := write("memory", "memory.max", memory); err != nil {
			return err
		}
		_ = write("memory", "memory.swap.max", "0") // absent without swap
		return errors.Join(write("pids", "pids.max", pids), write("cpu", "cpu.max", quota+" "+strconv.Itoa(period)))
	}
	for _, c := range []string{"memory", "pids", "cpu"} {
		if g.dir(c) == "" {
			return fmt.Errorf("make cgroup: no %s controller", c)
		}
	}
	for _, d := range g.dirs() {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
	}
	if err := write("memory", "memory.limit_in_bytes", memory); err != nil {
		return err
	}
	_ = write("memory", "memory.memsw.limit_in_bytes", memory) // absent without swap accounting
	return errors.Join(write("pids", "pids.max", pids),
		write("cpu", "cpu.cfs_period_us", strconv.Itoa(period)), write("cpu", "cpu.cfs_quota_us", quota))
}

// tcpLimit bounds what sockets hold in a group of the first version, which does
// not charge it to the group's memory. (What pipes and unix sockets hold is charged.)
const tcpLimit = "memory.kmem.tcp.limit_in_bytes"

// BoundsSockets says why groups cannot bound the memory of sockets, nil if they can.
func (h *Host) BoundsSockets() error {
	if h.V2 != "" {
		return nil // charged like all other memory
	}
	if _, err := os.Stat(filepath.Join(h.V1["memory"], tcpLimit)); err != nil {
		return fmt.Errorf("bound memory of sockets: %w", err)
	}
	return nil
}

// BoundSockets bounds what the sockets of the group hold to a quarter of its
// memory, where it is not charged to that. Sockets that exist already are not counted.
func (g *Group) BoundSockets(memoryBytes int64) error {
	if g.h.V2 != "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(g.dir("memory"), tcpLimit), []byte(strconv.FormatInt(memoryBytes/4, 10)), 0); err != nil {
		return fmt.Errorf("bound memory of sockets: %w", err)
	}
	return nil
}

// dirs are the directories that a process must join.
func (g *Group) dirs() []string {
	var out []string
	for _, c := range []string{"memory", "pids", "cpu", "cpuacct", "freezer"} {
		if d := g.dir(c); d != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// Join returns the files to which a process writes "0" to enter the group.
func (g *Group) Join() []string {
	var out []string
	for _, d := range g.dirs() {
		out = append(out, filepath.Join(d, "cgroup.procs"))
	}
	return out
}

// Procs lists the processes of the group and of groups below it.
func (g *Group) Procs() []int {
	c := "memory"
	if g.dir(c) == "" {
		c = "pids"
	}
	d := g.dir(c)
	if d == "" {
		return nil
	}
	var out []int
	_ = filepath.WalkDir(d, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil //nolint:nilerr // a group that vanished has no processes
		}
		b, _ := os.ReadFile(filepath.Join(p, "cgroup.procs"))
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil && n > 0 {
				out = append(out, n)
			}
		}
		return nil
	})
	return out
}

// Kill ends every process of the group but except (0 for none) and returns when
// they are gone, or with an error after wait. The group is frozen between
// looking and killing so that it cannot outrun us by forking.
func (g *Group) Kill(except int, wait time.Duration) error {
	end := time.Now().Add(wait) //nolint:forbidigo // real processes need real time
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if len(g.Procs()) == 0 { // nothing that could fork
			return nil
		}
		g.freeze(true)
		left := g.signal(except)
		g.freeze(false)
		if left == 0 {
			return nil
		}
		if time.Now().After(end) { //nolint:forbidigo // see above
			return fmt.Errorf("kill box: %d processes are still there", left)
		}
		// No event tells when the last process has left a v1 group.
		time.Sleep(pause)
	}
}

// signal kills through pidfds that were checked against the group after they
// were opened, so that a reused number never hits a process of the host.
func (g *Group) signal(except int) (left int) {
	fds := map[int]int{}
	for _, p := range g.Procs() {
		if p != except {
			left++
			if fd, err := unix.PidfdOpen(p, 0); err == nil {
				fds[p] = fd
			}
		}
	}
	if len(fds) > 0 {
		for _, p := range g.Procs() {
			if fd, ok := fds[p]; ok {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
		}
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return left
}

func (g *Group) freeze(on bool) {
	if g.h.V2 != "" {
		v := "0"
		if on {
			v = "1"
		}
		_ = os.WriteFile(filepath.Join(g.dir("freezer"), "cgroup.freeze"), []byte(v), 0)
		return
	}
	if d := g.dir("freezer"); d != "" {
		v := "THAWED"
		if on {
			v = "FROZEN"
		}
		_ = os.WriteFile(filepath.Join(d, "freezer.state"), []byte(v), 0)
	}
}

// Remove deletes the group from every hierarchy. Its processes must be gone;
// the kernel may need a moment to see that.
func (g *Group) Remove() error {
	var first error
	for _, m := range g.h.all {
		if err := removeTree(filepath.Join(m, g.name)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, p)
		}
		return nil //nolint:nilerr // what vanished need not be removed
	})
	if err != nil {
		return err
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		for try := 0; ; try++ {
			err := unix.Rmdir(dirs[i])
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || try == 200 {
				return fmt.Errorf("remove cgroup: %w", err)
			}
			time.Sleep(min(time.Duration(try+1)*500*time.Microsecond, 10*time.Millisecond)) // 1.9 s in all
		}
	}
	return nil
}

// List returns the ids of all boxes that have a group.
func (h *Host) List() []string {
	var out []string
	for _, m := range h.all {
		ents, _ := os.ReadDir(filepath.Join(m, h.Parent))
		for _, e := range ents {
			if e.IsDir() && !slices.Contains(out, e.Name()) {
				out = append(out, e.Name())
			}
		}
	}
	return out
}
