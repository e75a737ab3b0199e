package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// leafDenied are the calls that a leaf process may not make on top of the
// box's policy: it starts nothing, signals nobody, and leaves nothing behind.
var leafDenied = []string{
	"fork", "vfork", "clone", "clone3", "execve", "execveat",
	"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "pidfd_open",
	"creat", "openat2", "mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "link", "linkat",
	"rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "truncate",
	"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
	"utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat",
	"removexattr", "lremovexattr", "fremovexattr", "removexattrat",
	"bind", "listen", "shmget", "shmat", "semget", "msgget", "mq_open", "mq_unlink",
	"setpriority", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "ioprio_set",
	"setpgid", "setsid",
}

// Leaf returns a filter for a process that shall end as it began, as the bytes
// of struct sock_filter. It comes on top of the box's own: what it does not name
// is left to that.
func Leaf() []byte {
	p := []unix.SockFilter{
		load(offArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(retKill),
		load(offNr),
	}
	// Opening for writing, by the flags; prlimit64 of another process.
	const writes = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
	for _, c := range []struct {
		name string
		arg  uint32
		mask uint32
	}{{"open", 1, writes}, {"openat", 2, writes}, {"prlimit64", 0, 0xffffffff}} {
		if nr, ok := numbers[c.name]; ok {
			p = append(p,
				jump(unix.BPF_JEQ, nr, 0, 4),
				load(offArgs+8*c.arg),
				jump(unix.BPF_JSET, c.mask, 0, 1),
				ret(retEPERM),
				ret(retAllow),
			)
		}
	}
	var nrs []uint32
	for _, n := range leafDenied {
		if nr, ok := numbers[n]; ok {
			nrs = append(nrs, nr)
		}
	}
	slices.Sort(nrs)
	for _, nr := range nrs {
		p = append(p, jump(unix.BPF_JEQ, nr, 0, 1), ret(retEPERM))
	}
	return encode(append(p, ret(retAllow)))
}
