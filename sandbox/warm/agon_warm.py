# Waits where an image of the box may be taken, and goes on as the command that the box is asked for.
import importlib
import os
import sys


def waits():
    """Tell whether an image is to be taken: then it is worth doing what a command may need."""
    return "AGON_WARM" in os.environ


def wait():
    """Return at once in a box that was started; in one made of an image, as the command."""
    if not waits():
        return
    import socket
    import time

    control = socket.socket(fileno=int(os.environ["AGON_WARM"]))
    control.sendall(b"w")
    head, fds, _, _ = socket.recv_fds(control, 4, 3)
    size = int.from_bytes(head, "big")
    if len(head) != 4 or len(fds) != 3:
        os._exit(0)  # the box has gone
    body = bytearray()
    while len(body) < size:
        more = control.recv(size - len(body))
        if not more:
            os._exit(0)
        body += more
    control.close()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    where, *variables = bytes(body).split(b"\0")
    os.environb.clear()
    os.environb.update(v.split(b"=", 1) for v in variables)
    os.chdir(where)
    time.tzset()
    streams()
    anew()


def streams():
    """Make the standard streams anew: what they know of their files is of others."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        new = open(number, old.mode, encoding=old.encoding, errors=old.errors, buffering=1 if number == 2 else -1, closefd=False)
        setattr(sys, name, new)
        setattr(sys, "__" + name + "__", new)


def anew():
    """Draw anew what modules drew at random when they were imported, or keep from one draw to the next."""
    importlib.invalidate_caches()  # directories that were empty are another's now
    loaded = sys.modules.get
    for name in ("random", "numpy.random"):
        if loaded(name):
            loaded(name).seed()
    if loaded("tempfile"):
        loaded("tempfile")._name_sequence = None
    if loaded("uuid"):
        loaded("uuid")._node = loaded("uuid")._last_timestamp = None
    if loaded("_ssl"):
        loaded("_ssl").RAND_add(os.urandom(64), 64.0)
    if loaded("multiprocessing.process"):
        process = loaded("multiprocessing.process").current_process()
        process.authkey = os.urandom(32)
