package seccomp

import "golang.org/x/sys/unix"

// known are the calls of this architecture, as far as golang.org/x/sys has them.
var known = []span{{unix.SYS_READ, unix.SYS_UPROBE}, {unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RSEQ_SLICE_YIELD}}

// deniedHere are calls that only this architecture has.
var deniedHere = []uint32{
	unix.SYS_UPROBE, unix.SYS_URETPROBE, unix.SYS_MODIFY_LDT, unix.SYS_SET_THREAD_AREA, unix.SYS_GET_THREAD_AREA, unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS__SYSCTL, unix.SYS_SYSFS, unix.SYS_USTAT, unix.SYS_USELIB, unix.SYS_AFS_SYSCALL, unix.SYS_TUXCALL, unix.SYS_SECURITY, unix.SYS_VSERVER, unix.SYS_GETPMSG, unix.SYS_PUTPMSG, unix.SYS_EPOLL_CTL_OLD, unix.SYS_EPOLL_WAIT_OLD,
}

const auditArch = unix.AUDIT_ARCH_X86_64
