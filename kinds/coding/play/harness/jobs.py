"""Run the commands that a judge names, one after another, and hand over what they write.

Started by the judge in a box without network. Standard input holds one JSON object: {"root", "files", "jobs", "ready", "outer"}, where outer
are variables of this interpreter as they were before it, null for none; a job is
{"args", "dir", "timeout", "collect", "env", "needs"}. One line a job on standard output, after the word of "ready":
{"job", "code", "out", "err", "file"}. A job that needs one that did not end with 0 is not run, and says so by code null.
"""
import base64, json, os, select, signal, stat, subprocess, sys, time

LIMIT = 1 << 20  # bytes of what a job writes


def parent(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def sweep():
    """Kill what a job left behind: in a box every process of this user but this one and its parents."""
    keep, pid = {1, os.getpid()}, os.getpid()
    while pid > 1:
        pid = parent(pid)
        keep.add(pid)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in keep:
            try:
                os.kill(int(entry), signal.SIGKILL)
            except OSError:
                pass
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run(job, root):
    p = subprocess.Popen(job["args"], cwd=os.path.join(root, job.get("dir") or "."), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, start_new_session=True, env=dict(os.environ, **(job.get("env") or {})))
    got, code = {p.stdout: bytearray(), p.stderr: bytearray()}, None
    deadline, open_pipes = time.monotonic() + job["timeout"], [p.stdout, p.stderr]
    while open_pipes:
        wait = min(deadline - time.monotonic(), 1.0 if p.poll() is None else 0.2)
        if wait <= 0:
            break
        ready = select.select(open_pipes, [], [], wait)[0]
        if not ready and p.poll() is not None:
            break  # something that it left behind holds the pipes
        for f in ready:
            data = os.read(f.fileno(), 1 << 16)
            if not data:
                open_pipes.remove(f)
            got[f] += data[:LIMIT - len(got[f])]
    try:
        code = p.wait(max(0.0, min(deadline - time.monotonic(), 5.0)))
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
        code = "timeout"
    sweep()
    return code, bytes(got[p.stdout]), bytes(got[p.stderr])


def collect(path):
    """Take the file that a job leaves. What stands in its place may be of the code under test: a pipe would be waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(fd, "rb") as f:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("%s is not a file" % path)
        data = f.read(LIMIT)
    os.unlink(path)
    return data


def main():
    spec = json.loads(sys.stdin.buffer.read())
    for name, value in spec["outer"].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.set_inheritable(out, False)

    def say(row):
        data = json.dumps(row).encode() + b"\n"
        while data:
            data = data[os.write(out, data):]

    for name, data in spec["files"].items():
        with open(os.path.join(spec["root"], name), "wb") as f:
            f.write(base64.b64decode(data))
    os.write(out, (spec["ready"] + "\n").encode())
    codes = []
    for i, job in enumerate(spec["jobs"]):
        row = {"job": i, "code": None}
        needs = job.get("needs", -1)
        if needs < 0 or codes[needs] == 0:
            try:
                row["code"], stdout, stderr = run(job, spec["root"])
                row["out"], row["err"] = (base64.b64encode(b).decode() for b in (stdout, stderr))
                if job.get("collect"):
                    row["file"] = base64.b64encode(collect(job["collect"])).decode()
            except OSError as e:
                row["why"] = str(e)
        codes.append(row["code"])
        say(row)
    return 0


sys.exit(main())
