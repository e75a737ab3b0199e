"""Lay the changes of a snapshot over the same files as they were before.

Standard input has a line for each: kind (d directory, f file, l link, x a path to delete), mode in octal, mtime in
seconds, bytes of the path, bytes of the content (of a link: its target), then path and content. It runs before anything
that a contestant wrote does. Nothing is written through a link. Modules cost more to load in a box than the work itself.
"""
import os

data = open(0, "rb", buffering=1 << 16)
links = []
dirs = []
direct = {}  # by directory: no link leads to it
made = set()
buffer = bytearray(1 << 20)


def remove(p):
    try:
        os.unlink(p)
    except FileNotFoundError:
        return
    except OSError:
        if os.path.isdir(p):
            import shutil

            shutil.rmtree(p)
        elif os.path.lexists(p):
            raise
    forget()


def forget():
    direct.clear()
    made.clear()


def straight(p):
    parent = os.path.dirname(p)
    if parent not in direct:
        direct[parent] = os.path.realpath(parent) == parent
    return direct[parent]


def copy(size, to):
    while size:
        n = data.readinto(memoryview(buffer)[: min(size, len(buffer))])
        if not n:
            raise EOFError("the list ends within a file")
        size -= n
        part = memoryview(buffer)[:n]
        while to is not None and part:
            part = part[os.write(to, part) :]


while True:
    line = data.readline()
    if not line:
        break
    kind, mode, mtime, named, size = line.split()
    mode, mtime, size = int(mode, 8), int(mtime), int(size)
    p = data.read(int(named))
    if kind == b"x":
        if straight(p):
            remove(p)
    elif kind == b"l":
        links.append((p, data.read(size)))
    elif kind == b"d":
        if os.path.islink(p) or os.path.isfile(p):
            os.unlink(p)
            forget()
        os.makedirs(p, exist_ok=True)
        dirs.append((p, mode))
    else:
        parent = os.path.dirname(p)
        if parent not in made:
            os.makedirs(parent, exist_ok=True)
            made.add(parent)
        if not straight(p):
            copy(size, None)
            continue
        remove(p)
        f = os.open(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        copy(size, f)
        os.fchmod(f, mode)
        os.utime(f, (mtime, mtime))
        os.close(f)
for p, target in links:
    os.makedirs(os.path.dirname(p), exist_ok=True)
    if straight(p):
        remove(p)
        os.symlink(target, p)
for p, mode in reversed(dirs):
    os.chmod(p, mode)
