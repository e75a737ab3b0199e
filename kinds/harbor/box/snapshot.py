"""List what stands below directories, or write an archive of what differs from an earlier list.

Arguments: "list" or "pack", how many entries and bytes are allowed, how many directories follow, these, and paths to
leave out. A list is a path and what is known of it, each ended by a zero byte: "mode" of a directory, "mode size mtime"
of a file, "mode>target" of a link, numbers in octal but size and mtime (in nanoseconds). "pack" reads an earlier list
from standard input and writes a tar archive, whose first file (.agon/deleted) names what is gone, as JSON. Status 7:
more than entries or bytes allow, or deeper than this program recurses.

Modules cost more to load in a box than the work itself: errno, os and sys are all that is needed.
"""
import errno
import os
import sys

act, entries, room, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
roots = [os.fsencode(a) for a in sys.argv[5 : 5 + n]]
skip = {os.fsencode(a) for a in sys.argv[5 + n :]}
DIR, FILE, LINK = 0o040000, 0o100000, 0o120000
seen = {}


def walk(top):
    at = -1
    try:
        at = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK)
        below(top, at)
    except OSError as e:
        if e.errno == errno.EMFILE:  # a directory is open at each depth
            sys.exit(7)
    finally:
        if at >= 0:
            os.close(at)


def below(top, at):  # names are looked up from at: whole paths cost most of the time
    found = list(os.scandir(at))
    for e in found:
        p = top + b"/" + os.fsencode(e.name)
        if p in skip or p in seen:
            continue
        try:
            s = e.stat(follow_symlinks=False)
        except OSError:
            continue
        kind, mode = s.st_mode & 0o170000, s.st_mode & 0o7777
        if kind not in (FILE, DIR, LINK):
            continue
        if len(seen) >= entries:
            sys.exit(7)
        try:
            p.decode()
        except UnicodeDecodeError:
            continue
        if kind == FILE:
            seen[p] = b"%o %d %d" % (mode, s.st_size, s.st_mtime_ns)
        elif kind == DIR:
            seen[p] = b"%o" % mode
            walk(p)
        else:
            try:
                seen[p] = b"%o>%s" % (mode, os.fsencode(os.readlink(e.name, dir_fd=at)))
            except OSError:
                continue


for top in roots:
    try:
        walk(top)
    except RecursionError:
        sys.exit(7)
out = open(1, "wb", buffering=1 << 16, closefd=False)
if act == "list":
    for p, known in seen.items():
        out.write(b"%s\0%s\0" % (p, known))
    out.flush()
    sys.exit(0)


def octal(number, width):
    return b"%0*o\0" % (width - 1, min(max(number, 0), 8 ** (width - 1) - 1))


def header(name, kind, mode, size, mtime, link=b""):
    h = bytearray(512)
    h[0 : len(name)] = name
    h[100:108], h[108:116], h[116:124] = octal(mode, 8), octal(0, 8), octal(0, 8)
    h[124:136], h[136:148], h[148:156] = octal(size, 12), octal(mtime, 12), b" " * 8
    h[156:157], h[157 : 157 + len(link)], h[257:265] = kind, link, b"ustar\x0000"
    h[148:156] = b"%06o\0 " % sum(h)
    return h


def record(key, value):
    size = len(key) + len(value) + 3
    while len(b"%d" % size) + len(key) + len(value) + 3 != size:
        size = len(b"%d" % size) + len(key) + len(value) + 3
    return b"%d %s=%s\n" % (size, key, value)


def add(name, kind, mode, content=b"", mtime=0, link=b""):
    global room
    room -= len(content) + 1024
    if room < 0:
        sys.exit(7)
    more = b""
    if len(name) > 100:
        more += record(b"path", name)
    if len(link) > 100:
        more += record(b"linkpath", link)
    if more:
        room -= len(more)
        out.write(header(b"pax", b"x", 0o644, len(more), 0) + more + bytes(-len(more) % 512))
    out.write(header(name[:100], kind, mode, len(content), mtime, link[:100]))
    out.write(content)
    out.write(bytes(-len(content) % 512))


words = open(0, "rb").read().split(b"\0")
before = dict(zip(words[::2], words[1::2]))
gone = sorted(p.decode() for p in before if p and p not in seen)
if gone:
    import json

    add(b".agon/deleted", b"0", 0o644, json.dumps(gone).encode())
else:
    add(b".agon/deleted", b"0", 0o644, b"[]")
buffer = bytearray(1 << 20)  # one for all files: fresh memory costs more in a box than reading
for p in sorted(seen):
    now = seen[p]
    if before.get(p) == now:
        continue
    name = p.lstrip(b"/")
    mode, isLink, target = now.partition(b">")
    words = now.split(b" ")
    if isLink:
        add(name, b"2", int(mode, 8), link=target)
    elif len(words) == 1:
        add(name, b"5", int(mode, 8))
    else:
        size = int(words[1])
        if size > room:
            sys.exit(7)
        if size >= len(buffer):
            buffer = bytearray(size + 1)
        try:
            with open(os.open(p, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as f:
                had = 0
                while had <= size:
                    got = f.readinto(memoryview(buffer)[had : size + 1])
                    if not got:
                        break
                    had += got
        except OSError:
            continue
        add(name, b"0", int(words[0], 8), memoryview(buffer)[:had], int(words[2]) // 1000000000)
out.write(bytes(1024))
out.flush()
