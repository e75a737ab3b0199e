# Takes from a worker what a script has no business with: new threads,
# processes and programs, and signals to anybody but itself.
import ctypes
import os
import platform
import struct

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM = 1
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 4, 38, 22
_COPY_AT_FORK = 0x41474F4E

# name: numbers of the system calls that are refused, and of those that are allowed only towards oneself.
_ARCHES = {
    "x86_64": (
        0xC000003E,
        # clone fork vfork execve ptrace setns unshare process_vm_readv process_vm_writev
        # userfaultfd bpf perf_event_open execveat pidfd_send_signal clone3 pidfd_getfd keyctl
        (56, 57, 58, 59, 101, 308, 272, 310, 311, 323, 321, 298, 322, 424, 435, 438, 250),
        (62, 200, 234, 129, 297),  # kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo
    ),
    "aarch64": (
        0xC00000B7,
        (220, 221, 117, 268, 97, 270, 271, 282, 280, 241, 281, 424, 435, 438, 219),
        (129, 130, 131, 138, 240),
    ),
}

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def hide_memory():
    """Close this process's memory and descriptors to others of the same user, children included."""
    if _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl dumpable")


def copy_at_fork():
    """Ask gVisor, as it is built here, for children with a copy of this memory: cheaper than the faults of sharing it.

    Other kernels refuse the number, which changes nothing. What is asked for ends with this program's memory and
    is not passed on to children.
    """
    _libc.prctl(_COPY_AT_FORK, 1, 0, 0, 0)


def program(arch, pid):
    """The filter's code: refused numbers give EPERM; signals pass only to pid."""
    token, refused, signals = _ARCHES[arch]
    tail = len(refused) + len(signals)
    out = [(0x20, 0, 0, 4), (0x15, 1, 0, token), (0x06, 0, 0, _KILL), (0x20, 0, 0, 0)]
    if arch == "x86_64":
        # numbers of the x32 table would pass by others than these
        out += [(0x35, 0, 1, 0x40000000), (0x06, 0, 0, _ERRNO | _EPERM)]
    for i, nr in enumerate(refused):
        out.append((0x15, tail - i, 0, nr))  # to the refusal
    for i, nr in enumerate(signals):
        out.append((0x15, len(signals) - i + 1, 0, nr))  # to the comparison
    out += [
        (0x06, 0, 0, _ALLOW),
        (0x06, 0, 0, _ERRNO | _EPERM),
        (0x20, 0, 0, 16),  # the first argument, low half
        (0x15, 0, 1, pid & 0xFFFFFFFF),
        (0x06, 0, 0, _ALLOW),
        (0x06, 0, 0, _ERRNO | _EPERM),
    ]
    return b"".join(struct.pack("<HBBI", code, jt, jf, k) for code, jt, jf, k in out)


def confine():
    """Install the filter in this process, for good. OSError if the kernel refuses it."""
    arch = platform.machine()
    if arch not in _ARCHES:
        raise OSError(95, "no filter for this machine: " + arch)
    code = program(arch, os.getpid())
    prog = _Program(len(code) // 8, code)
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl no_new_privs")
    if _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(prog), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl seccomp")
