package seccomp

import "golang.org/x/sys/unix"

// known are the calls of this architecture, as far as golang.org/x/sys has them.
var known = []span{{unix.SYS_IO_SETUP, unix.SYS_RECVMMSG}, {unix.SYS_WAIT4, unix.SYS_KEXEC_FILE_LOAD}, {unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RSEQ_SLICE_YIELD}}

// deniedHere are calls that only this architecture has.
var deniedHere []uint32

const auditArch = unix.AUDIT_ARCH_AARCH64
