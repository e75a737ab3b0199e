# The keeper of a warm box. It imports what the arena declares, never the
# script; for each invocation it forks, and the child closes the door behind
# itself before the first line of the script.
#
# Frames in both directions: 8 bytes big-endian length, JSON. Only this process
# holds the two ends that lead to the host.
import asyncio, base64, ctypes, fcntl, gc, importlib, inspect, json, os, resource, runpy, select, signal, struct, sys, time, traceback

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_PDEATHSIG = 4, 22, 1


class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def read_exact(fd, n):
    out = bytearray()
    while len(out) < n:
        c = os.read(fd, n - len(out))
        if not c:
            sys.exit(0)
        out += c
    return bytes(out)


def read_frame(fd):
    return json.loads(read_exact(fd, struct.unpack(">Q", read_exact(fd, 8))[0]))


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def write_frame(fd, value, tail=()):
    data = json.dumps(value).encode()
    write_all(fd, struct.pack(">Q", len(data)) + data + b"".join(tail))


def exact(v, depth=0):
    """Whether v is made of exact JSON types, so that no code of the script decides what is sent."""
    if depth > 200:
        return False
    t = type(v)
    if t in (str, int, bool) or v is None:
        return True
    if t is float:
        return v == v and v not in (float("inf"), float("-inf"))
    if t is list:
        return all(exact(x, depth + 1) for x in v)
    if t is dict:
        return all(type(k) is str and exact(x, depth + 1) for k, x in v.items())
    return False


def worker(req, out, dumps):
    """Runs the script; returns the result frame."""

    def error(code, e):
        return dumps({"status": "error", "error": {"code": code, "exception": type(e).__name__, "message": str(e)[:4000]}})

    try:
        namespace = runpy.run_path(req["script"], run_name="__agon_script__")
    except BaseException as e:
        return error("PreloadFailed", e)
    entry = namespace.get(req["entry"])
    if not callable(entry):
        return error("MissingEntrypoint", KeyError(req["entry"]))
    try:
        r = entry(req["payload"])
        if inspect.isawaitable(r):

            async def main():
                return await r

            r = asyncio.run(main())
        if not exact(r):
            raise TypeError("the result is not made of JSON types")
        return dumps({"status": "ok", "result": r})
    except BaseException as e:
        return error("UnhandledException", e)


def child(req, result, output, config, fprog):
    for fd in (1, 2):
        os.dup2(output, fd)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    result = fcntl.fcntl(result, fcntl.F_DUPFD, 3) if result < 3 else result
    os.dup2(result, 3)
    os.closerange(4, 4096)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    cpu = max(1, int(req["wall_ms"] // 1000) + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if config.get("memory"):
        resource.setrlimit(resource.RLIMIT_AS, (config["memory"], config["memory"]))
    dumps = json.JSONEncoder(allow_nan=False).encode
    if libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(fprog), 0, 0):
        os._exit(99)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, m, closefd=False) for i, m in ((0, "r"), (1, "w"), (2, "w")))
    data = worker(req, 3, dumps).encode("utf-8", "backslashreplace")
    for f in (sys.stdout, sys.stderr):
        try:
            f.flush()
        except Exception:
            pass
    try:
        write_all(3, struct.pack(">Q", len(data)) + data)
    finally:
        os._exit(0)


def invoke(req, config, fprog):
    rr, rw = os.pipe()
    orr, ow = os.pipe()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            child(req, rw, ow, config, fprog)
        finally:
            os._exit(98)
    os.close(rw)
    os.close(ow)
    poll = select.poll()
    bufs = {rr: bytearray(), orr: bytearray()}
    limits = {rr: config["result"] + 8, orr: config["output"]}
    for fd in bufs:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    end, why, left = start + req["wall_ms"] / 1000, "", set(bufs)
    while left:
        wait = end - time.monotonic()
        if wait <= 0 and not why:
            why = "wall"
            os.kill(pid, signal.SIGKILL)
            end += 5
            continue
        for fd, _ in poll.poll(max(0, wait) * 1000 + 1):
            data = os.read(fd, 65536)
            if not data:
                poll.unregister(fd)
                left.discard(fd)
                continue
            room = limits[fd] - len(bufs[fd])
            bufs[fd] += data[:max(0, room)]
            if len(data) > room and not why:
                why = "result" if fd == rr else "output"
                os.kill(pid, signal.SIGKILL)
    os.close(rr)
    os.close(orr)
    _, status = os.waitpid(pid, 0)
    res = bytes(bufs[rr])
    whole = len(res) >= 8 and struct.unpack(">Q", res[:8])[0] == len(res) - 8
    doubts = []
    for d in config["empty"]:
        try:
            if os.listdir(d):
                doubts.append(d + " is not empty")
        except OSError as e:
            doubts.append(str(e))
    try:
        os.waitpid(-1, os.WNOHANG)
        doubts.append("another child")
    except ChildProcessError:
        pass
    return {"end": why, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1, "whole": whole, "doubts": doubts,
            "ms": (time.monotonic() - start) * 1000, "result": len(res) - 8 if whole else 0,
            "output": len(bufs[orr])}, (res[8:] if whole else b"", bytes(bufs[orr]))


def main():
    inp, out = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    config = read_frame(inp)
    code = base64.b64decode(config["filter"])
    buf = ctypes.create_string_buffer(code, len(code))
    fprog = Fprog(len(code) // 8, ctypes.addressof(buf))
    failed = []
    for name in config["imports"]:
        try:
            importlib.import_module(name)
        except BaseException as e:
            failed.append("%s: %s: %s" % (name, type(e).__name__, str(e)[:200]))
    # Nobody of the same user may look into this process.
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        failed.append("prctl")
    gc.collect()
    gc.freeze()  # fewer pages to copy in the child
    write_frame(out, {"ready": True, "failed": failed})
    while True:
        req = read_frame(inp)
        head, tail = invoke(req, config, fprog)
        write_frame(out, head, tail)


main()
