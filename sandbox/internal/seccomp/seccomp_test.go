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
	for nr := range uint32(1100) {
		if slices.Contains(conditional, nr) {
			continue
		}
		want := uint32(retAllow)
		switch {
		case !slices.ContainsFunc(known, func(s span) bool { return s.lo <= nr && nr <= s.hi }):
			want = retENOSYS
		case slices.Contains(denied, nr):
			want = retEPERM
		}
		if got := run(t, p, nr, auditArch); got != want {
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
		}
	}
	if got := run(t, p, unix.SYS_READ, 0x40000003); got != retKill {
		t.Errorf("foreign architecture: %#x", got)
	}
	if got := run(t, p, 0x40000000|unix.SYS_READ, auditArch); got != retENOSYS {
		t.Errorf("x32 call: %#x", got)
	}
	for _, tt := range []struct {
		call uint32
		args []uint64
		want uint32
	}{
		{unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, retAllow},
		{unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, retAllow},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, retEPERM},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, retEPERM},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWCGROUP}, retEPERM},
		{unix.SYS_CLONE3, nil, retENOSYS},
		{unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, retAllow},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, retAllow},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 0}, retAllow},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, retNoFamily},
		{unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, retNoFamily},
		{unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, retNoFamily},
		{unix.SYS_SOCKET, []uint64{0, 0, 0}, retNoFamily},
		// The kernel cuts these arguments to 32 bits, and so does the filter.
		{unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, retNoFamily},
		{unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, retAllow},
		{unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC}, retEPERM},
		{unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, retDone},
		{unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, retDone},
		{unix.SYS_SETSOCKOPT, []uint64{3, 1<<32 | unix.SOL_SOCKET, unix.SO_SNDBUF}, retDone},
		{unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, retAllow},
		{unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_TCP, unix.SO_RCVBUF}, retAllow},
		{unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 1}, retDone},
		{unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_NOFILE, 1}, retAllow},
		{unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, 1}, retAllow},
		{unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x7f0000000000, 0}, retDone},
		{unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x7f1000, 0}, retDone},
		{unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0x7f1000, 0}, retAllow},
		{unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE, 0x7f1000, 0}, retEPERM},
		{unix.SYS_PRLIMIT64, []uint64{7, unix.RLIMIT_NOFILE, 0x7f1000, 0}, retAllow},
		{unix.SYS_SCHED_SETAFFINITY, []uint64{0, 8}, retAllow},
		{unix.SYS_SCHED_SETAFFINITY, []uint64{1, 8}, retEPERM},
		{unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0, 5}, retAllow},
		{unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 1, 5}, retEPERM},
		{unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0, 5}, retEPERM},
		{unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PGRP, 0, 5}, retEPERM},
		{unix.SYS_IOPRIO_SET, []uint64{ioprioProcess, 0}, retAllow},
		{unix.SYS_IOPRIO_SET, []uint64{ioprioGroup, 0}, retEPERM},
	} {
		if got := run(t, p, tt.call, auditArch, tt.args...); got != tt.want {
			t.Errorf("call %d%#x: %#x, want %#x", tt.call, tt.args, got, tt.want)
		}
	}
}

func TestLists(t *testing.T) {
	for _, r := range rules {
		if slices.Contains(denied, r.call) || slices.Contains(conditional, r.call) {
			t.Errorf("rule on call %d, which is decided elsewhere", r.call)
		}
	}
	for _, n := range conditional {
		if slices.Contains(denied, n) {
			t.Errorf("call %d", n)
		}
	}
	if n := len(allowed()); n < 240 {
		t.Errorf("%d calls are allowed", n)
	}
}
