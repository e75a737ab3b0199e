package seccomp

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// run executes a filter on one call, as the kernel does.
func run(t *testing.T, p []unix.SockFilter, nr, arch uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		in := p[pc]
		cond := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			cond = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			cond = acc > in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			cond = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			cond = acc&in.K != 0
		default:
			t.Fatalf("instruction %d has code %#x", pc, in.Code)
		}
		if cond {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	t.Fatal("the program ran past its end")
	return 0
}

func TestProgram(t *testing.T) {
	p := Program()
	if len(p) > 4096 {
		t.Fatalf("%d instructions, the kernel takes 4096", len(p))
	}
	if len(Bytes()) != 8*len(p) {
		t.Fatalf("%d bytes for %d instructions", len(Bytes()), len(p))
	}
	name := map[uint32]string{}
	for n, nr := range numbers {
		name[nr] = n
	}
	for nr := range uint32(1100) {
		n, known := name[nr]
		if slices.Contains(conditional, n) {
			continue
		}
		want := uint32(retAllow)
		switch {
		case !known:
			want = retENOSYS
		case slices.Contains(denied, n):
			want = retEPERM
		}
		if got := run(t, p, nr, auditArch); got != want {
			t.Errorf("call %d %s: %#x, want %#x", nr, n, got, want)
		}
	}
	if got := run(t, p, numbers["read"], 0x40000003); got != retKill {
		t.Errorf("foreign architecture: %#x", got)
	}
	if got := run(t, p, 0x40000000|numbers["read"], auditArch); got != retENOSYS {
		t.Errorf("x32 call: %#x", got)
	}
	for _, tt := range []struct {
		call string
		args []uint64
		want uint32
	}{
		{"clone", []uint64{uint64(unix.SIGCHLD)}, retAllow},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, retAllow},
		{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, retEPERM},
		{"clone", []uint64{unix.CLONE_NEWNS}, retEPERM},
		{"clone", []uint64{unix.CLONE_NEWCGROUP}, retEPERM},
		{"clone3", nil, retENOSYS},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, retAllow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, retAllow},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 0}, retAllow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, retNoFamily},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, retNoFamily},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, retNoFamily},
		{"socket", []uint64{0, 0, 0}, retNoFamily},
		// The kernel cuts these arguments to 32 bits, and so does the filter.
		{"socket", []uint64{1<<32 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, retNoFamily},
		{"socketpair", []uint64{unix.AF_UNIX}, retAllow},
		{"socketpair", []uint64{unix.AF_TIPC}, retEPERM},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, retDone},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, retDone},
		{"setsockopt", []uint64{3, 1<<32 | unix.SOL_SOCKET, unix.SO_SNDBUF}, retDone},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, retAllow},
		{"setsockopt", []uint64{3, unix.IPPROTO_TCP, unix.SO_RCVBUF}, retAllow},
		{"setrlimit", []uint64{unix.RLIMIT_CORE, 1}, retDone},
		{"setrlimit", []uint64{unix.RLIMIT_NOFILE, 1}, retAllow},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0, 1}, retAllow},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0x7f0000000000, 0}, retDone},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0x7f1000, 0}, retDone},
		{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 0x7f1000, 0}, retAllow},
		{"prlimit64", []uint64{1, unix.RLIMIT_NOFILE, 0x7f1000, 0}, retEPERM},
		{"prlimit64", []uint64{7, unix.RLIMIT_NOFILE, 0x7f1000, 0}, retAllow},
		{"sched_setaffinity", []uint64{0, 8}, retAllow},
		{"sched_setaffinity", []uint64{1, 8}, retEPERM},
		{"setpriority", []uint64{unix.PRIO_PROCESS, 0, 5}, retAllow},
		{"setpriority", []uint64{unix.PRIO_PROCESS, 1, 5}, retEPERM},
		{"setpriority", []uint64{unix.PRIO_USER, 0, 5}, retEPERM},
		{"setpriority", []uint64{unix.PRIO_PGRP, 0, 5}, retEPERM},
		{"ioprio_set", []uint64{ioprioProcess, 0}, retAllow},
		{"ioprio_set", []uint64{ioprioGroup, 0}, retEPERM},
	} {
		if got := run(t, p, numbers[tt.call], auditArch, tt.args...); got != tt.want {
			t.Errorf("%s%#x: %#x, want %#x", tt.call, tt.args, got, tt.want)
		}
	}
}

func TestLists(t *testing.T) {
	// A misspelt name would silently allow the call on every architecture.
	amd64Only := 0
	for _, n := range denied {
		if _, ok := numbers[n]; !ok {
			amd64Only++
		}
	}
	if auditArch == 0xc000003e && amd64Only > 0 {
		t.Errorf("%d denied names are not system calls", amd64Only)
	}
	for _, r := range rules {
		if _, ok := numbers[r.call]; !ok || slices.Contains(denied, r.call) || slices.Contains(conditional, r.call) {
			t.Errorf("rule on %s", r.call)
		}
	}
	for _, n := range conditional {
		if _, ok := numbers[n]; !ok || slices.Contains(denied, n) {
			t.Errorf("%s", n)
		}
	}
	if n := len(allowed()); n < 250 {
		t.Errorf("%d names are allowed", n)
	}
}
