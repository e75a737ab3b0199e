"""Runs in a fresh box before anything of a miner does: lays a patch's files
over the workspace, or says how the workspace differs from what it must be.

Standard input: one JSON line, then the bytes of the files that it lists.
Standard output: one JSON object. The workspace may hold anything: no link is
followed, nothing but regular files is opened.
"""
import hashlib
import json
import os
import stat
import sys

ROOT = "/workspace"
MOST = 50_000  # entries told


def apply(job, src):
    for path in job["delete"]:
        os.unlink(os.path.join(ROOT, path))
        parent = os.path.dirname(path)
        while parent:  # git keeps no empty directory
            try:
                os.rmdir(os.path.join(ROOT, parent))
            except OSError:
                break
            parent = os.path.dirname(parent)
    for path, size, mode in job["write"]:
        full = os.path.join(ROOT, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(fd, "wb") as f:
            while size:
                block = src.read(min(size, 1 << 20))
                if not block:
                    raise EOFError(path)
                f.write(block)
                size -= len(block)
            os.fchmod(f.fileno(), mode)
    return {"times": times(job["watch"])}


def times(paths):
    """When each file last changed in any way. Nothing but the kernel sets these
    times, so a file that keeps its own needs no reading again."""
    out = []
    for path in paths:
        st = os.lstat(os.path.join(ROOT, path))
        out.append(st.st_ctime_ns)
    return out


def remove(parts):
    """Removes a file below real directories only."""
    at = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            try:
                nxt = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            except OSError:
                return
            os.close(at)
            at = nxt
        try:
            os.unlink(parts[-1], dir_fd=at)
        except OSError:
            pass
    finally:
        os.close(at)


def digest(name, at):
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    h = hashlib.sha256()
    with os.fdopen(fd, "rb", buffering=0) as f:
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            return ""
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def verify(job, _):
    """Compares the workspace with a manifest {path: [kind, size, sha256 or target]}.
    Files whose times of change are those in "times" are taken for unchanged."""
    changed, extra, seen = [], [], set()
    if job.get("remove"):
        remove(job["remove"].split("/"))
    want, known = job["files"], job.get("times") or {}
    if want is None:
        return {}
    for top, dirs, files, at in os.fwalk(ROOT, follow_symlinks=False):
        rel = os.path.relpath(top, ROOT)
        rel = "" if rel == "." else rel + "/"
        # fwalk lists links to directories among the directories and does not enter them.
        names = files + [d for d in dirs if stat.S_ISLNK(os.stat(d, dir_fd=at, follow_symlinks=False).st_mode)]
        for name in names:
            path = rel + name
            st = os.stat(name, dir_fd=at, follow_symlinks=False)
            have = want.get(path)
            if have is None:
                kind = "file" if stat.S_ISREG(st.st_mode) else "link" if stat.S_ISLNK(st.st_mode) else "other"
                extra.append([os.fsencode(path).decode("utf-8", "replace"), kind])
                if len(extra) > MOST:
                    return {"error": f"setup left more than {MOST} files"}
                continue
            seen.add(path)
            kind, size, mark = have
            if kind == "link":
                good = stat.S_ISLNK(st.st_mode) and os.readlink(name, dir_fd=at) == mark
            else:
                good = stat.S_ISREG(st.st_mode) and st.st_size == size and bool(st.st_mode & 0o100) == (kind == "exec")
                good = good and (known.get(path) == st.st_ctime_ns or digest(name, at) == mark)
            if not good:
                changed.append(path)
    changed += [p for p in want if p not in seen]
    return {"changed": sorted(set(changed))[:1000], "extra": extra}


def main():
    src = sys.stdin.buffer
    job = json.loads(src.readline())
    os.umask(0o022)
    print(json.dumps({"apply": apply, "verify": verify}[job["do"]](job, src)))


main()
