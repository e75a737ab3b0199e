# Put before every attack. BREACH in the output is a defeat; END says that the
# attack ran to its last line.
import ctypes, errno, os, signal, socket, struct, subprocess, sys, threading, time, urllib.request
libc = ctypes.CDLL(None, use_errno=True)

def breach(what, detail=""):
    print("BREACH", what, str(detail)[:200], flush=True)

def refused(what, f, *args):
    """Call f, which has to fail."""
    try:
        r = f(*args)
    except (OSError, PermissionError, MemoryError, RuntimeError, subprocess.SubprocessError) as e:
        print("refused", what, e, flush=True)
        return e
    breach(what, r)

def call(what, nr, *args):
    """Make a system call by number, which has to fail."""
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r >= 0:
        breach(what, r)

def end():
    print("END", flush=True)
