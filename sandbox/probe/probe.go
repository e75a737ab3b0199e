// Package probe finds the strongest sandbox that works on this machine by
// trying it, and cleans up after processes that were killed.
package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/bwrap"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/proc"
	"github.com/agon-arena/agon/sandbox/runc"
	"github.com/agon-arena/agon/sandbox/runsc"
)

// Config says what to try.
type Config struct {
	// Rootfs is a root file system with python3. Required.
	Rootfs string
	// StateDir holds boxes. Required.
	StateDir string
	// Want demands one driver by name; empty takes the strongest that works.
	Want string
	// Runsc is the gVisor runtime; empty takes what runsc.Find finds. It is
	// never built here.
	Runsc string
}

// Report is what came of one driver.
type Report struct {
	Driver agon.Driver `json:"driver"`
	OK     bool        `json:"ok"`
	Checks []Check     `json:"checks,omitempty"`
	Err    string      `json:"error,omitempty"` // why it cannot be used
}

// Check is one thing that must hold in a box.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// candidates in order of strength.
var candidates = []struct {
	name string
	make func(context.Context, Config) (sandbox.Driver, error)
}{
	{"runsc", func(ctx context.Context, c Config) (sandbox.Driver, error) {
		d, err := runsc.New(ctx, runsc.Config{StateDir: c.StateDir, Binary: c.Runsc})
		if err != nil {
			return nil, err
		}
		return d, nil
	}},
	{"runc", func(ctx context.Context, c Config) (sandbox.Driver, error) {
		d, err := runc.New(ctx, runc.Config{StateDir: c.StateDir})
		if err != nil {
			return nil, err // not a nil *Driver in an interface
		}
		return d, nil
	}},
	{"bwrap", func(ctx context.Context, c Config) (sandbox.Driver, error) {
		d, err := bwrap.New(ctx, bwrap.Config{StateDir: c.StateDir})
		if err != nil {
			return nil, err
		}
		return d, nil
	}},
}

// timeout bounds the trial of one driver.
const timeout = 60 * time.Second

// Probe returns the strongest driver that passes every check, and a report of
// each that was tried. If none does, the error wraps sandbox.ErrNoDriver and
// its text tells what to mend. There is no driver without a sandbox.
func Probe(ctx context.Context, c Config) (sandbox.Driver, []Report, error) {
	var reports []Report
	known := false
	for _, cand := range candidates {
		if c.Want != "" && c.Want != cand.name {
			continue
		}
		known = true
		d, err := cand.make(ctx, c)
		if err != nil {
			reports = append(reports, Report{Driver: agon.Driver{Name: cand.name}, Err: err.Error()})
			continue
		}
		r := try(ctx, d, c)
		reports = append(reports, r)
		if r.OK {
			return d, reports, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, reports, err
	}
	if !known {
		return nil, reports, fmt.Errorf("%w: no driver is called %q; known are runsc, runc and bwrap", sandbox.ErrNoDriver, c.Want)
	}
	var why []string
	for _, r := range reports {
		why = append(why, r.Driver.Name+": "+r.Err)
	}
	mend := "install bubblewrap and allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0); " +
		"as root, install runc (apt-get install runc bubblewrap); inside Docker, add --security-opt seccomp=unconfined"
	return nil, reports, fmt.Errorf("%w: %s. Mend: %s", sandbox.ErrNoDriver, strings.Join(why, "; "), mend)
}

// Examine tries every driver, strongest first, and reports on each.
func Examine(ctx context.Context, c Config) []Report {
	var out []Report
	for _, cand := range candidates {
		d, err := cand.make(ctx, c)
		if err != nil {
			out = append(out, Report{Driver: agon.Driver{Name: cand.name}, Err: err.Error()})
			continue
		}
		out = append(out, try(ctx, d, c))
	}
	return out
}

// Leftovers lists what Sweep would remove: boxes of dead processes, and cgroups
// of boxes that are no more.
func Leftovers(stateDir string) ([]string, error) {
	out, err := layers.Leftovers(stateDir)
	h, herr := cgroup.Detect()
	if herr != nil {
		return out, errors.Join(err, herr)
	}
	for _, id := range h.List() {
		if layers.Abandoned(id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, err
}

// try makes a box and runs the checks in it.
func try(ctx context.Context, d sandbox.Driver, c Config) Report {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := Report{Driver: d.Info()}
	checks, err := examine(ctx, d, c)
	r.Checks = checks
	switch {
	case err != nil:
		r.Err = err.Error()
	default:
		r.OK = true
		for _, ch := range checks {
			if !ch.OK {
				r.OK = false
				r.Err = fmt.Sprintf("check %q failed: %s", ch.Name, ch.Detail)
				break
			}
		}
	}
	return r
}

// script runs inside and prints one JSON object of name: [ok, detail].
const script = `
import json, os, socket, subprocess, sys, urllib.request
secret, port, door = sys.argv[1], int(sys.argv[2]), sys.argv[3]
out = {}
def check(name, f):
    try:
        ok, detail = f()
    except Exception as e:
        ok, detail = False, repr(e)
    out[name] = [bool(ok), str(detail)[:200]]
def refused(f, *errs):
    def g():
        try:
            f()
        except errs or (OSError,) as e:
            return True, repr(e)
        return False, "it worked"
    return g
def status(key):
    for l in open("/proc/self/status"):
        if l.startswith(key + ":"):
            return l.split()[1]
proc = os.path.exists("/proc/self/status") # a box may have none: see bwrap
def powers():
    if proc:
        return [k for k in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh") if int(status(k), 16)]
    import ctypes
    libc, head, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(head, sets):
        return ["capget"]
    return [n for n in list(sets) if n] + [c for c in range(41) if libc.prctl(23, c, 0, 0, 0) == 1 or libc.prctl(47, 1, c, 0, 0) == 1]
def mode(key, call):
    if proc:
        return status(key)
    import ctypes
    return str(ctypes.CDLL(None).prctl(call, 0, 0, 0, 0))
def sock(family, kind=socket.SOCK_STREAM):
    socket.socket(family, kind).close()
def connect(host, port):
    socket.create_connection((host, port), 3).close()
check("host file", refused(lambda: open(secret)))
check("host loopback", refused(lambda: connect("127.0.0.1", port)))
check("internet", refused(lambda: connect("192.0.2.1", 443)))
for name, family in (("netlink", 16), ("packet", 17), ("alg", 38), ("vsock", 40)):
    check("socket " + name, refused(lambda: sock(family, socket.SOCK_DGRAM)))
check("socket inet", lambda: (sock(socket.AF_INET) is None, ""))
check("root read-only", refused(lambda: open("/agon-probe", "w")))
check("usr read-only", refused(lambda: open("/usr/agon-probe", "w")))
check("capabilities", lambda: (not powers(), powers()))
check("no new privileges", lambda: (mode("NoNewPrivs", 39) == "1", mode("NoNewPrivs", 39)))
check("seccomp", lambda: (mode("Seccomp", 21) == "2", mode("Seccomp", 21)))
check("not root", lambda: (os.getuid() != 0, os.getuid()))
check("unshare", lambda: (subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode != 0, ""))
check("other processes", lambda: (len([p for p in os.listdir("/proc") if p.isdigit()]) < 8, ""))
check("environment", lambda: (set(os.environ) <= {"PATH", "HOME", "PWD", "LC_CTYPE"}, " ".join(os.environ)))
check("door", lambda: (urllib.request.build_opener(urllib.request.ProxyHandler({})).open(urllib.request.Request(door, headers={"X-Agon-Probe": "forged"}), timeout=5).read() == b"true", ""))
check("result", lambda: (open("/work/result", "w").write("kept") == 4, ""))
print(json.dumps(out))
`

func examine(ctx context.Context, d sandbox.Driver, c Config) ([]Check, error) {
	var word [16]byte
	_, _ = rand.Read(word[:]) // never fails
	token := hex.EncodeToString(word[:])
	// Things of the host that a box must not reach.
	secret := filepath.Join(c.StateDir, "probe-"+token)
	if err := os.WriteFile(secret, []byte(token), 0o644); err != nil {
		return nil, fmt.Errorf("write probe file: %w", err)
	}
	defer func() { _ = os.Remove(secret) }()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	// Answers whether the door set the header and dropped the forged one.
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, slices.Equal(r.Header.Values("X-Agon-Probe"), []string{token}))
	})}
	go func() { _ = srv.Serve(l) }()
	defer func() { _ = srv.Close() }()
	port := l.Addr().(*net.TCPAddr).Port

	box, err := d.Start(ctx, sandbox.Spec{
		Name: "probe", Rootfs: c.Rootfs,
		Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/work"}},
		Doors: []sandbox.Door{{
			Listen: "127.0.0.1:80", Target: fmt.Sprintf("http://127.0.0.1:%d", port),
			Header: map[string]string{"X-Agon-Probe": token},
		}},
		Limits: agon.Limits{WallMS: 30_000, MemoryBytes: memory, DiskBytes: 16 << 20, Inodes: 1024, OutputBytes: 1 << 20},
	})
	if err != nil {
		return nil, err
	}
	checks, err := inside(ctx, box, secret, port)
	if err == nil {
		b, rerr := box.ReadFile("/work/result", 16)
		checks = append(checks, Check{"read result", rerr == nil && string(b) == "kept", fmt.Sprint(rerr)})
	}
	if err == nil {
		var c Check
		c, err = sockets(ctx, box, d.Info().Limits)
		checks = append(checks, c)
	}
	if cerr := box.Close(); err == nil {
		err = cerr
	}
	return checks, err
}

// memory of the box that is examined; fill stops at twice of it.
const memory = 96 << 20

// fill puts data into sockets that nobody reads: into accepted connections, and
// into more that nobody accepts, which cgroups do not charge.
const fill = `
import socket, sys, time
most, total, held = 2 * int(sys.argv[1]), 0, []
def put(s):
    global total
    s.setblocking(False)
    try:
        while total < most: total += s.send(b"x" * 65536)
    except OSError: pass
try:
    l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(100)
    while total < most and len(held) < 400:
        a = socket.socket(); a.connect(l.getsockname()); b = l.accept()[0]; held += [a, b]
        for s in (a, b):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        put(a)
    while total < most:
        l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30); l.bind(("127.0.0.1", 0)); l.listen(4096); held.append(l)
        for _ in range(250):
            a = socket.socket(); a.settimeout(0.5); a.connect(l.getsockname()); put(a); a.close()
            if total >= most: break
except OSError: pass
if total >= most: time.sleep(2)
print(total)
`

// sockets measures whether what sockets hold counts as the box's memory. A driver
// that does not claim to bound memory passes. Call it last: it may end the box.
func sockets(ctx context.Context, box sandbox.Box, limits []string) (Check, error) {
	c := Check{Name: "socket memory", OK: true}
	if !slices.Contains(limits, "memory") {
		c.Detail = "not claimed"
		return c, nil
	}
	var out bytes.Buffer
	exit, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"python3", "-I", "-c", fill, strconv.Itoa(memory)}, Stdout: &out, Stderr: &out, Wall: 20 * time.Second, Untrusted: true})
	if err != nil {
		return c, err
	}
	held, _ := strconv.Atoi(strings.TrimSpace(out.String()))
	c.Detail = fmt.Sprintf("%d MB in a box of %d MB, ended by limit %q", held>>20, memory>>20, exit.Limit)
	c.OK = exit.Limit == "memory" || exit.Code == 0 && held < 2*memory
	return c, nil
}

func inside(ctx context.Context, box sandbox.Box, secret string, port int) ([]Check, error) {
	var out, errs bytes.Buffer
	run := func(args ...string) error {
		out.Reset()
		errs.Reset()
		exit, err := box.Exec(ctx, sandbox.Cmd{Args: args, Stdout: &out, Stderr: &errs})
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			return fmt.Errorf("python3 in the box: exit %d %s%s: %.300s", exit.Code, exit.Limit, exit.Lost, errs.String())
		}
		return nil
	}
	if err := run("python3", "-c", "print(1)"); err != nil {
		return nil, err
	}
	if out.String() != "1\n" {
		return nil, fmt.Errorf("python3 in the box: printed %.100q", out.String())
	}
	if err := run("python3", "-I", "-c", script, secret, fmt.Sprint(port), "http://127.0.0.1/"); err != nil {
		return nil, err
	}
	var results map[string][2]any
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		return nil, fmt.Errorf("python3 in the box: %w", err)
	}
	var checks []Check
	for name, v := range results {
		ok, _ := v[0].(bool)
		checks = append(checks, Check{name, ok, fmt.Sprint(v[1])})
	}
	slices.SortFunc(checks, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return checks, nil
}

// killNamed kills processes outside of boxes that have a box's id among their
// arguments, and waits a moment for their end.
func killNamed(id string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := proc.Open(pid) // before looking: the number may be another's by then
		if err != nil {
			continue
		}
		fi, serr := os.Stat(f)
		raw, rerr := os.ReadFile(f)
		st, ok := (*syscall.Stat_t)(nil), false
		if serr == nil {
			st, ok = fi.Sys().(*syscall.Stat_t)
		}
		if ok && rerr == nil && int(st.Uid) == os.Geteuid() && bytes.Contains(raw, []byte("/"+id+"/")) && p.Kill() == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			_ = p.Wait(ctx)
			cancel()
		}
		_ = p.Close()
	}
}

// Sweep removes what boxes of dead processes left below stateDir: processes,
// cgroups, mounts and directories, and cgroups of agon boxes whose directory is
// gone as well. Boxes of living processes and of other containers stay. Call it
// before the first box. It returns how many boxes it removed.
func Sweep(stateDir string) (int, error) {
	h, err := cgroup.Detect()
	if err != nil {
		return 0, err
	}
	end := func(id string) error {
		// A runtime's client that was starting the box is in no group yet.
		killNamed(id)
		g := h.Group(id)
		return errors.Join(g.Kill(0, 10*time.Second), g.Remove())
	}
	n, err := layers.Sweep(stateDir, end)
	more, rerr := layers.SweepRun(stateDir, end)
	n, err = n+more, errors.Join(err, rerr)
	// A state directory may have been deleted with its boxes still in it.
	for _, id := range h.List() {
		if layers.Abandoned(id) {
			n++
			err = errors.Join(err, end(id))
		}
	}
	// Files of probes that were killed; a probe that runs has made its own just now.
	files, _ := filepath.Glob(filepath.Join(stateDir, "probe-*"))
	for _, f := range files {
		if fi, serr := os.Lstat(f); serr == nil && fi.Mode().IsRegular() && time.Since(fi.ModTime()) > 2*timeout { //nolint:forbidigo // the age of a file
			err = errors.Join(err, os.Remove(f))
		}
	}
	return n, err
}
