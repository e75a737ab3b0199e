package sandboxtest

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// attacks runs system calls by number and prints "name errno"; 0 is success.
const attacks = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
buf = ctypes.create_string_buffer(4096)
p = ctypes.addressof(buf)
def call(name, nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    print(name, ctypes.get_errno() if r < 0 else 0)
S = b"/work"
NEWUSER, NEWNS, NEWNET, NEWPID = 0x10000000, 0x20000, 0x40000000, 0x20000000
call("ptrace", 101, 16, 1, 0, 0)
call("mount", 165, b"none", S, b"tmpfs", 0, 0)
call("umount2", 166, S, 2)
call("pivot_root", 155, S, S)
call("chroot", 161, S)
call("unshare user", 272, NEWUSER)
call("unshare net", 272, NEWNET)
call("setns", 308, 0, 0)
call("clone user", 56, NEWUSER | 17, 0, 0, 0, 0)
call("clone pid", 56, NEWPID | 17, 0, 0, 0, 0)
call("clone3", 435, p, 1)
call("keyctl", 250, 0, 0xfffffffd, 1)
call("add_key", 248, b"user", b"k", b"v", 1, 0xfffffffd)
call("request_key", 249, b"user", b"k", 0, 0)
call("bpf", 321, 0, p, 48)
call("perf_event_open", 298, p, 0, -1, -1, 0)
call("io_uring_setup", 425, 4, p)
call("userfaultfd", 323, 1)
call("kexec_load", 246, 0, 0, 0, 0)
call("kexec_file_load", 320, 0, 0, 0, b"", 0)
call("process_vm_readv", 310, os.getpid(), p, 0, p, 0, 0)
call("process_vm_writev", 311, os.getpid(), p, 0, p, 0, 0)
call("open_by_handle_at", 304, -100, p, 0)
call("name_to_handle_at", 303, -100, S, p, p, 0)
call("personality", 135, 0x0040000)
call("init_module", 175, p, 10, b"")
call("finit_module", 313, 0, b"", 0)
call("delete_module", 176, b"x", 0)
call("reboot", 169, 0xfee1dead, 672274793, 0, 0)
call("swapon", 167, S, 0)
call("syslog", 103, 3, p, 100)
call("sethostname", 170, b"x", 1)
call("settimeofday", 164, p, 0)
call("clock_settime", 227, 0, p)
call("acct", 163, S)
call("quotactl", 179, 0, 0, 0, 0)
call("iopl", 172, 3)
call("modify_ldt", 154, 0, p, 16)
call("fsopen", 430, b"tmpfs", 0)
call("open_tree", 428, -100, b"/", 1)
call("move_mount", 429, -1, b"", -1, b"", 0)
call("mount_setattr", 442, -100, b"/", 0, p, 32)
call("fanotify_init", 300, 0, 0)
call("memfd_secret", 447, 0)
call("pidfd_getfd", 438, 0, 0, 0)
call("kcmp", 312, 1, 1, 0, 0, 0)
call("vmsplice", 278, 0, 0, 0, 0)
call("mbind", 237, 0, 0, 0, 0, 0, 0)
call("unknown", 900)
call("setuid 0", 105, 0)
call("setresuid 0", 117, 0, 0, 0)
call("setgroups", 116, 0, p)
call("mknod device", 133, b"/work/dev", 0o60666, 0x800)
call("chown", 92, b"/work", 0, 0)
call("setpriority", 141, 0, 0, -20)
call("memfd_create", 319, b"ok", 0)
call("getpid", 39)
`

// looks prints what can be seen of the host.
const looks = `
import os
print("fds", sorted(os.listdir("/proc/self/fd")))
def attempt(name, f):
    try: print(name, "OPEN", str(f())[:80])
    except OSError as e: print(name, e.errno)
def opened(p): # a file of the host's that is masked by /dev/null is not there
    fd = os.open(p, os.O_RDONLY)
    if os.fstat(fd).st_rdev == os.makedev(1, 3): raise OSError(2, "masked")
    return fd
for p in ("/etc/shadow", "/proc/kcore", "/proc/1/environ", "/proc/1/root/etc", "/proc/1/fd", "/dev/kmsg", "/dev/mem", "/dev/vda", "/dev/sda",
    "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/loop0", "/var/run/docker.sock", "/run/docker.sock", "/sys/kernel/security", "/sys/fs/cgroup"):
    attempt(p, (lambda: os.listdir(p)) if not p.startswith("/dev") and os.path.isdir(p) else (lambda: opened(p)))
for p in ("/proc/cmdline", "/proc/kallsyms", "/proc/keys", "/proc/timer_list"):
    attempt(p, lambda: open(p).read() or (_ for _ in ()).throw(OSError(2, "empty")))
for p in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/self/oom_score_adj"):
    attempt("write " + p, lambda: os.write(os.open(p, os.O_WRONLY), b"-1"))
print("caps", [l.split()[1] for l in open("/proc/self/status") if l.startswith("Cap")])
print("pids", sorted(int(p) for p in os.listdir("/proc") if p.isdigit()))
print("cgroup", open("/proc/self/cgroup").read().split())
for root, dirs, files in os.walk("/", onerror=None):
    dirs[:] = [d for d in dirs if os.path.join(root, d) not in ("/proc", "/sys", "/dev")]
    for f in files + dirs:
        st = os.lstat(os.path.join(root, f))
        if st.st_mode & 0o6000 and (st.st_mode & 0o170000) == 0o100000: print("SETUID", root, f)
        if (st.st_mode & 0o170000) in (0o060000, 0o020000): print("DEVICE", root, f)
`

// perExec tells whether every execution has its own pid namespace.
func (s *suite) perExec() bool { return slices.Contains(s.Driver.Info().Limits, "exec_pidns") }

// ownKernel tells whether the box has a kernel of its own, so that what is
// made-up there tells nothing of the host.
func (s *suite) ownKernel() bool { return slices.Contains(s.Driver.Info().Limits, "kernel") }

// ownDevices tells whether a line of looks names something that such a kernel makes up.
func ownDevices(l string) bool {
	switch name, seen, _ := strings.Cut(l, " OPEN "); name {
	case "/dev/fuse", "/dev/net/tun":
		return true
	case "/sys/fs/cgroup":
		return seen == "[]"
	case "/proc/cmdline":
		return strings.Contains(seen, "gvisor")
	}
	return false
}

func testEscapes(t *testing.T, s *suite) {
	b := s.start(t, nil)
	if runtime.GOARCH == "amd64" {
		r := py(t, b, attacks)
		if r.Code != 0 {
			t.Fatal(r)
		}
		n := 0
		for l := range strings.Lines(r.out) {
			i := strings.LastIndexByte(strings.TrimSpace(l), ' ')
			name, errno := l[:i], strings.TrimSpace(l[i:])
			n++
			want := "1" // EPERM
			switch name {
			case "clone3":
				want = "38" // ENOSYS, so that libraries fall back
			case "unknown":
				want = "38 1"
			case "mount_setattr", "memfd_secret":
				if s.ownKernel() {
					want = "1 38" // it has no such call
				}
			case "memfd_create", "getpid":
				want = "0"
			case "setpriority":
				want = "13"
				if s.ownKernel() {
					want = "0 13" // of no effect on the host
				}
			case "chown":
				want = "1 22" // not permitted, or not mapped
			case "setuid 0", "setresuid 0":
				want = "1 22" // not mapped, or not permitted
			}
			if !slices.Contains(strings.Fields(want), errno) {
				t.Errorf("%s: errno %s, want %s", name, errno, want)
			}
		}
		if n < 50 {
			t.Errorf("only %d calls were tried: %v", n, r)
		}
		// Calls of other ABIs have other numbers; the filter kills or refuses them.
		r = py(t, b, "import ctypes; print('x32 gave', ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39)))")
		if strings.Contains(r.out, "gave") && !strings.Contains(r.out, "gave -1") {
			t.Errorf("an x32 call went through: %v", r)
		}
		r = py(t, b, `
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
print("32-bit call gave", f())`)
		if strings.Contains(r.out, "gave") && !strings.Contains(r.out, "gave -") {
			t.Errorf("a 32-bit call went through: %v", r)
		}
	} else {
		t.Logf("NOT RUN: system calls are tried by their amd64 numbers only")
	}
	r := py(t, b, looks)
	if r.Code != 0 {
		t.Fatal(r)
	}
	for l := range strings.Lines(r.out) {
		l = strings.TrimSpace(l)
		switch {
		case strings.Contains(l, " OPEN ") && strings.HasPrefix(l, "write /proc/self/oom_score_adj"):
			// Lowering it needs a privilege; writing what is there already does not.
		case s.ownKernel() && strings.Contains(l, " OPEN ") && ownDevices(l):
			// Of the box's own kernel, not the host's.
		case strings.HasPrefix(l, "/proc/1/") && s.perExec():
			// The first process is the command's own and holds nothing of the host.
		case strings.Contains(l, " OPEN "), strings.HasPrefix(l, "SETUID"), strings.HasPrefix(l, "DEVICE"):
			t.Error(l)
		case strings.HasPrefix(l, "fds"):
			if l != "fds ['0', '1', '2', '3']" { // 3 is the listing itself
				t.Error(l)
			}
		case strings.HasPrefix(l, "caps"):
			if strings.Trim(l, "caps []',0") != "" {
				t.Error(l)
			}
		case strings.HasPrefix(l, "pids"):
			if strings.Count(l, ",") > 4 {
				t.Error(l)
			}
		case strings.HasPrefix(l, "cgroup"):
			if strings.Contains(l, "agon") {
				t.Errorf("the host's cgroup path shows: %s", l)
			}
		}
	}
	t.Log(strings.ReplaceAll(r.out, "\n", "; "))
}
