"""Start programs for the verifier as the contestant's user: as-agent asks, over a socket that has a name but no file.

The asker's standard streams come with the request, so that a program writes where the verifier says and nowhere else.
Programs cannot make symbolic links: one in the place of a file that the verifier writes or reads would lead it to the
reward or to the tests. A filter of system calls sees to that (seccomp(2)), for them and all that they start.
"""
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import threading

# By architecture as the filter sees it (linux/audit.h): symlink, symlinkat. All have io_uring_setup at 425, whose
# rings make links too. Programs of another architecture, and x32's numbers, are refused every call.
LINKS = {"x86_64": (0xC000003E, (88, 266)), "aarch64": (0xC00000B7, (36,))}


def no_links():
    arch, numbers = LINKS[os.uname().machine]
    load, equal, atleast, end = 0x20, 0x15, 0x35, 0x06
    refuse, allow = (end, 0, 0, 0x00050001), (end, 0, 0, 0x7FFF0000)  # EPERM
    refused = numbers + (425,)
    lines = [(load, 0, 0, 4), (equal, 1, 0, arch), refuse, (load, 0, 0, 0), (atleast, len(refused) + 1, 0, 0x40000000)]
    lines += [(equal, len(refused) - i, 0, n) for i, n in enumerate(refused)]
    lines += [allow, refuse]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(lines), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.addressof(program), 0, 0):
        raise OSError(ctypes.get_errno(), "refuse symbolic links to programs")
    try:
        os.symlink("x", "/tmp/.as-agent-link")
    except PermissionError:
        return
    raise OSError("programs could still make symbolic links")


no_links()
door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
door.bind("\0agon-as-agent")
door.listen(64)
open("/tmp/.as-agent", "w").close()


def serve(c):
    child = None
    fds = []
    try:
        message, fds, _, _ = socket.recv_fds(c, 1 << 20, 3)
        job = json.loads(message)
        env = {k: v for k, v in job["env"].items() if not k.startswith("AGON_")}
        try:
            child = subprocess.Popen(job["args"], cwd=job["dir"], env=env, stdin=fds[0], stdout=fds[1], stderr=fds[2], start_new_session=True)
        except OSError as e:
            c.sendall(json.dumps({"code": 127, "error": str(e)}).encode())
            return
        finally:
            for fd in fds:
                os.close(fd)

        def ended():
            try:
                c.recv(1)  # the asker is gone
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass

        threading.Thread(target=ended, daemon=True).start()
        code = child.wait()
        c.sendall(json.dumps({"code": code if code >= 0 else 128 - code}).encode())
    except (OSError, ValueError, KeyError, IndexError):
        pass
    finally:
        try:
            c.shutdown(socket.SHUT_RDWR)  # close alone tells nobody while the thread above still reads
        except OSError:
            pass
        c.close()


while True:
    c, _ = door.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
