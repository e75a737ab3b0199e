"""List what stands below directories, or write an archive of what differs from an earlier list.

Standard input holds {"roots": [...], "skip": [...], "entries": n, "bytes": n, "before": {path: [...]} or null}. Without
before a list is printed. With it a tar archive is, whose first file (.agon/deleted) names what is gone. Status 7: more
than entries or bytes allow, or deeper than this program recurses.
"""
import io
import json
import os
import stat
import sys
import tarfile

job = json.load(sys.stdin)
skip = set(job["skip"])
seen = {}


def walk(top):
    try:
        entries = sorted(os.scandir(top), key=lambda e: e.name)
    except OSError:
        return
    for e in entries:
        if e.path in skip or e.path in seen:
            continue
        try:
            s = e.stat(follow_symlinks=False)
        except OSError:
            continue
        kind = stat.S_IFMT(s.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            continue
        if len(seen) >= job["entries"]:
            sys.exit(7)
        try:
            e.path.encode()
        except UnicodeEncodeError:
            continue
        mode = stat.S_IMODE(s.st_mode)
        if kind == stat.S_IFDIR:
            seen[e.path] = [mode]
            walk(e.path)
        elif kind == stat.S_IFLNK:
            try:
                seen[e.path] = [mode, os.readlink(e.path)]
            except OSError:
                continue
        else:
            seen[e.path] = [mode, s.st_size, s.st_mtime_ns]


for top in job["roots"]:
    try:
        walk(top)
    except RecursionError:
        sys.exit(7)
before = job["before"]
if before is None:
    json.dump(seen, sys.stdout)
    sys.exit(0)

room = job["bytes"]
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|", bufsize=1 << 16, format=tarfile.PAX_FORMAT)


def add(info, content=b""):
    global room
    room -= len(content) + 1024
    if room < 0:
        sys.exit(7)
    info.size = len(content)
    out.addfile(info, io.BytesIO(content))


gone = json.dumps(sorted(p for p in before if p not in seen)).encode()
add(tarfile.TarInfo(".agon/deleted"), gone)
for p in sorted(seen):
    now = seen[p]
    if before.get(p) == now:
        continue
    info = tarfile.TarInfo(p.lstrip("/"))
    info.mode = now[0]
    if len(now) == 1:
        info.type = tarfile.DIRTYPE
        add(info)
    elif len(now) == 2:
        info.type, info.linkname = tarfile.SYMTYPE, now[1]
        add(info)
    else:
        if now[1] > room:
            sys.exit(7)
        try:
            fd = os.open(p, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as f:
                content = f.read(min(room, now[1]) + 1)
        except OSError:
            continue
        info.mtime = now[2] // 1000000000
        add(info, content)
out.close()
