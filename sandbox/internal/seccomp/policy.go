// Package seccomp holds the one system-call policy of all boxes, as a BPF program
// that bubblewrap or the first process of a box installs.
//
// It is an allow-list: every call that the tables know and denied does not
// name. Calls newer than the tables answer ENOSYS, so that libraries fall back.
package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// denied calls answer EPERM. Most need a capability that boxes lack anyway;
// they are listed so that one kernel bug does not suffice.
var denied = []string{
	// other processes' memory, descriptors and state
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd",
	// namespaces and mounts
	"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount",
	"fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "listmount", "statmount", "listns",
	// handles and attributes that step over path permissions
	"open_by_handle_at", "name_to_handle_at", "file_setattr", "file_getattr",
	// kernel keys: not namespaced
	"add_key", "request_key", "keyctl",
	// large kernel surfaces
	"bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd",
	"fanotify_init", "fanotify_mark", "vmsplice", "memfd_secret", "uprobe", "uretprobe", "remap_file_pages",
	"modify_ldt", "set_thread_area", "get_thread_area", "personality", "map_shadow_stack",
	// placement on the host's memory nodes
	"mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages", "get_mempolicy",
	// the machine itself
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module",
	"get_kernel_syms", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup",
	"iopl", "ioperm", "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
	"lsm_set_self_attr", "lsm_list_modules", "lsm_get_self_attr",
	// leftovers of old kernels
	"_sysctl", "sysfs", "ustat", "uselib", "nfsservctl", "lookup_dcookie", "afs_syscall", "tuxcall", "security",
	"vserver", "getpmsg", "putpmsg", "epoll_ctl_old", "epoll_wait_old",
}

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
	call    string
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
	{"setsockopt", retDone, []arg{{arg: 1, is: unix.SOL_SOCKET}, {arg: 2, is: unix.SO_SNDBUF}}},
	{"setsockopt", retDone, []arg{{arg: 1, is: unix.SOL_SOCKET}, {arg: 2, is: unix.SO_RCVBUF}}},
	// A limit of 1 byte keeps the host's core helper from running for a crash in a
	// box; with 0 it would run.
	{"setrlimit", retDone, []arg{{arg: 0, is: unix.RLIMIT_CORE}}},
	{"prlimit64", retDone, []arg{{arg: 1, is: unix.RLIMIT_CORE}, {arg: 2, set: true}}},
	// The first process of a bubblewrap box is the commands' own user's, and
	// belongs to us all the same.
	{"prlimit64", retEPERM, []arg{{arg: 0, is: 1}}},
	{"sched_setaffinity", retEPERM, []arg{{arg: 0, is: 1}}},
	{"sched_setscheduler", retEPERM, []arg{{arg: 0, is: 1}}},
	{"sched_setparam", retEPERM, []arg{{arg: 0, is: 1}}},
	{"sched_setattr", retEPERM, []arg{{arg: 0, is: 1}}},
	{"setpriority", retEPERM, []arg{{arg: 0, is: unix.PRIO_PROCESS}, {arg: 1, is: 1}}},
	{"setpriority", retEPERM, []arg{{arg: 0, is: unix.PRIO_PGRP}}},
	{"setpriority", retEPERM, []arg{{arg: 0, is: unix.PRIO_USER}}},
	{"ioprio_set", retEPERM, []arg{{arg: 0, is: ioprioProcess}, {arg: 1, is: 1}}},
	{"ioprio_set", retEPERM, []arg{{arg: 0, is: ioprioGroup}}},
	{"ioprio_set", retEPERM, []arg{{arg: 0, is: ioprioUser}}},
}

// conditional calls are allowed with some arguments only.
var conditional = []string{"clone", "clone3", "socket", "socketpair"}

// allowed returns the names of the unconditionally allowed calls, sorted.
func allowed() []string {
	var out []string
	for n := range numbers {
		if !slices.Contains(denied, n) && !slices.Contains(conditional, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
