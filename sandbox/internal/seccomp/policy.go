// Package seccomp holds the one system-call policy of all boxes, as a BPF program
// that bubblewrap or the first process of a box installs.
//
// It is an allow-list: every call of known that denied does not name. Newer
// calls answer ENOSYS, so that libraries fall back.
package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// denied calls answer EPERM. Most need a capability that boxes lack anyway;
// they are listed so that one kernel bug does not suffice.
var denied = append([]uint32{
	// other processes' memory, descriptors and state
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	// namespaces and mounts
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_LISTMOUNT, unix.SYS_STATMOUNT, unix.SYS_LISTNS,
	// handles and attributes that step over path permissions
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FILE_SETATTR, unix.SYS_FILE_GETATTR,
	// kernel keys: not namespaced
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// large kernel surfaces
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD,
	unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_VMSPLICE, unix.SYS_MEMFD_SECRET, unix.SYS_REMAP_FILE_PAGES,
	unix.SYS_PERSONALITY, unix.SYS_MAP_SHADOW_STACK,
	// placement on the host's memory nodes
	unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_SET_MEMPOLICY_HOME_NODE, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_GET_MEMPOLICY,
	// the machine itself
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_LSM_SET_SELF_ATTR, unix.SYS_LSM_LIST_MODULES, unix.SYS_LSM_GET_SELF_ATTR,
	// leftovers of old kernels
	unix.SYS_NFSSERVCTL, unix.SYS_LOOKUP_DCOOKIE,
}, deniedHere...)

// newNamespaces are the clone(2) flags that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// socketKind is a permitted pair of address family and protocol. AF_VSOCK is
// not namespaced and would reach the hypervisor, so families are allow-listed;
// protocols too, because some of them make the kernel load modules.
type socketKind struct{ family, protocol uint32 }

var socketKinds = []socketKind{
	{unix.AF_UNIX, 0},
	{unix.AF_INET, unix.IPPROTO_IP},
	{unix.AF_INET, unix.IPPROTO_TCP},
	{unix.AF_INET, unix.IPPROTO_UDP},
	{unix.AF_INET6, unix.IPPROTO_IP},
	{unix.AF_INET6, unix.IPPROTO_TCP},
	{unix.AF_INET6, unix.IPPROTO_UDP},
}

// rule gives a verdict on a call whose arguments fit all of when. Calls that no
// rule fits are decided as others are.
type rule struct {
	call    uint32
	verdict uint32
	when    []arg
}

// arg is a condition on an argument, of whose low half is looked at: it is a
// value, or not null.
type arg struct {
	arg uint32
	is  uint32
	set bool
}

// ioprio_set(2) names its targets by numbers that package unix does not have.
const (
	ioprioProcess = 1
	ioprioGroup   = 2
	ioprioUser    = 3
)

var rules = []rule{
	// How much a socket holds is the namespace's choice (sandbox/netns): no cgroup
	// charges what an unaccepted connection holds. Programs take it for a hint.
	{unix.SYS_SETSOCKOPT, retDone, []arg{{arg: 1, is: unix.SOL_SOCKET}, {arg: 2, is: unix.SO_SNDBUF}}},
	{unix.SYS_SETSOCKOPT, retDone, []arg{{arg: 1, is: unix.SOL_SOCKET}, {arg: 2, is: unix.SO_RCVBUF}}},
	// A limit of 1 byte keeps the host's core helper from running for a crash in a
	// box; with 0 it would run.
	{unix.SYS_SETRLIMIT, retDone, []arg{{arg: 0, is: unix.RLIMIT_CORE}}},
	{unix.SYS_PRLIMIT64, retDone, []arg{{arg: 1, is: unix.RLIMIT_CORE}, {arg: 2, set: true}}},
	// The first process of a bubblewrap box is the commands' own user's, and
	// belongs to us all the same.
	{unix.SYS_PRLIMIT64, retEPERM, []arg{{arg: 0, is: 1}}},
	{unix.SYS_SCHED_SETAFFINITY, retEPERM, []arg{{arg: 0, is: 1}}},
	{unix.SYS_SCHED_SETSCHEDULER, retEPERM, []arg{{arg: 0, is: 1}}},
	{unix.SYS_SCHED_SETPARAM, retEPERM, []arg{{arg: 0, is: 1}}},
	{unix.SYS_SCHED_SETATTR, retEPERM, []arg{{arg: 0, is: 1}}},
	{unix.SYS_SETPRIORITY, retEPERM, []arg{{arg: 0, is: unix.PRIO_PROCESS}, {arg: 1, is: 1}}},
	{unix.SYS_SETPRIORITY, retEPERM, []arg{{arg: 0, is: unix.PRIO_PGRP}}},
	{unix.SYS_SETPRIORITY, retEPERM, []arg{{arg: 0, is: unix.PRIO_USER}}},
	{unix.SYS_IOPRIO_SET, retEPERM, []arg{{arg: 0, is: ioprioProcess}, {arg: 1, is: 1}}},
	{unix.SYS_IOPRIO_SET, retEPERM, []arg{{arg: 0, is: ioprioGroup}}},
	{unix.SYS_IOPRIO_SET, retEPERM, []arg{{arg: 0, is: ioprioUser}}},
}

// conditional calls are allowed with some arguments only.
var conditional = []uint32{unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR}

// allowed returns the numbers of the unconditionally allowed calls, ascending.
func allowed() []uint32 {
	var out []uint32
	for _, s := range known {
		for n := s.lo; n <= s.hi; n++ {
			if !slices.Contains(denied, n) && !slices.Contains(conditional, n) {
				out = append(out, n)
			}
		}
	}
	return out
}
