"""Run listed tests by pytest, the units of a file in a process of its own, and write what came of them.

Started by the judge in a box without network. Standard input holds one JSON object: {"root", "path", "files", "units",
"timeout", "ready", "processes", "plugins"}; a unit is {"id": "tests/test_x.py::Class::test", "mark": n}. Lines on standard
output: the word of "ready", then {"unit", "test", "case", "outcome", "asserted", "line", "why"} for each test as pytest names it, where case is
which one of how many cases of its unit, {"begin": mark} whenever the body of a unit begins, and {"end": [units], "status"} for each process.

What is written here is the word of a process that the code under test shares. Twins are what makes it count (README.md): nothing
that this process knows, nor a file that it writes, may tell a twin from a test.
"""
import base64, json, os, select, signal, sys, time

SITE = ["/usr/lib/python3/dist-packages"]
MARKS = 198  # the descriptor of begin marks
STARTS_PROCESSES = frozenset("os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system subprocess.Popen pty.spawn".split())


def hook(event, args):
    if event in STARTS_PROCESSES:
        raise PermissionError(1, "this task's tests start no processes")


class Report:
    """Tells of each test once, when its last part has ended."""

    def __init__(self, say, units):
        self.say, self.units, self.parts, self.cases, self.let_by = say, {u["id"]: u["mark"] for u in units}, {}, {}, []
        self.watch_raises()

    def watch_raises(self):
        """Note which exceptions pass by a block that expects another one: a test fails by that as by an assertion."""
        import pytest

        blocks = type(pytest.raises(ValueError))
        leave = blocks.__exit__

        def leaves(block, kind, value, trace):
            held = leave(block, kind, value, trace)
            if value is not None and not held:
                self.let_by.append(value)
            return held

        blocks.__exit__ = leaves

    def unit(self, nodeid):
        return self.units.get(nodeid.split("[")[0])

    def pytest_collection_finish(self, session):
        """Number the cases of each unit: pytest names them by their values, and a twin has others."""
        of = {}
        for item in session.items:
            of.setdefault(item.nodeid.split("[")[0], []).append(item.nodeid)
        for found in of.values():
            self.cases.update((name, [i, len(found)]) for i, name in enumerate(found))

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None:
            import _pytest.outcomes

            kind = call.excinfo.type
            failed = issubclass(kind, (AssertionError, _pytest.outcomes.Failed)) or any(v is call.excinfo.value for v in self.let_by)
            asserted = call.when == "call" and failed
            lines = [e.lineno + 1 for e in call.excinfo.traceback if str(e.path) == str(item.path)]
            self.parts.setdefault(item.nodeid, []).append((call.when, kind.__name__, asserted, str(call.excinfo.value)[:600], lines[-1] if lines else 0))

    def pytest_runtest_logreport(self, report):
        seen = self.parts.setdefault(report.nodeid, [])
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            seen.append((report.when, report.outcome, False, "", 0))
        if report.when != "teardown":
            return
        row = {"unit": self.unit(report.nodeid), "test": report.nodeid, "case": self.cases.get(report.nodeid), "outcome": "failed" if seen else "passed"}
        if seen:
            row["why"] = ("%s: %s" % (seen[0][1], seen[0][3])).strip(": ")
            row["line"] = seen[0][4]
            row["asserted"] = any(s[2] for s in seen) and all(s[0] == "call" for s in seen)
        self.say(row)

    def pytest_collectreport(self, report):
        if report.outcome == "failed":
            self.say({"broken": report.nodeid, "why": str(report.longrepr)[-600:]})


def child(spec, units, out):
    """Become the process of some units of one file. Never returns."""
    code = 1
    try:
        os.setsid()
        os.dup2(out, MARKS)
        os.chdir(spec["root"])

        def say(row):
            os.write(out, json.dumps(row)[:6000].encode() + b"\n")

        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.environ.pop("PYTEST_ADDOPTS", None)
        import pytest

        sys.path[:0] = spec["path"]
        args = ["-p", "no:cacheprovider", "-p", "no:faulthandler", "-q", "--no-header", "--rootdir", spec["root"], "--override-ini", "addopts="]
        for name in spec["plugins"]:
            args += ["-p", name]
        report = Report(say, units)
        args += [u["id"] for u in units]
        if not spec["processes"]:
            import _posixsubprocess, subprocess

            def fork_exec(*args, **kwargs):
                raise PermissionError(1, "this task's tests start no processes")

            _posixsubprocess.fork_exec = subprocess._fork_exec = fork_exec
            sys.addaudithook(hook)
        code = int(pytest.main(args, plugins=[report]))
    except BaseException as e:
        try:
            os.write(out, json.dumps({"broken": "pytest", "why": "%s: %s" % (type(e).__name__, str(e)[:600])}).encode() + b"\n")
        except BaseException:
            pass
    finally:
        os._exit(code)


def sweep(me):
    """Kill what a process left behind: in a box every process of this user but this one and its parents."""
    keep, pid = {1, me}, me
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


def parent(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def play(spec, units, say, limit):
    """Run units in one process and relay its lines; return the marks of units that no line told of."""
    left = {u["mark"] for u in units}
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        child(spec, units, w)
    os.close(w)
    deadline, buffer, status, size = time.monotonic() + limit, b"", None, 0
    while True:
        wait = deadline - time.monotonic()
        if wait <= 0:
            status = "timeout"
            break
        if not select.select([r], [], [], wait)[0]:
            continue
        data = os.read(r, 1 << 16)
        size += len(data)
        if not data or size > 4 << 20:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        buffer = buffer[-10000:]
        for line in lines:
            if line.startswith(b"begin "):
                say({"begin": int(line[6:14]) if line[6:14].isdigit() else -1})
                continue
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                left.discard(row.get("unit"))
                say(row)
    if status is None:
        end = time.monotonic() + 5
        while status is None and time.monotonic() < end:
            done, code = os.waitpid(pid, os.WNOHANG)
            if done:
                status = "exit %d" % os.waitstatus_to_exitcode(code)
            else:
                time.sleep(0.002)
    if not (status or "").startswith("exit"):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(r)
    sweep(os.getpid())
    say({"end": [u["mark"] for u in units], "status": status or "killed"})
    return left


def main():
    spec = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)

    def say(row):
        os.write(out, json.dumps(row)[:8000].encode() + b"\n")

    try:
        for name, data in spec["files"].items():
            with open(os.path.join(spec["root"], name), "wb") as f:
                f.write(base64.b64decode(data))
        sys.path[:] = [p for p in sys.path if p and p != spec["root"]] + [p for p in SITE if p not in sys.path and os.path.isdir(p)]
        import pytest  # before anything of the task can stand in its place
    except BaseException as e:
        say({"broken": "harness", "why": "%s: %s" % (type(e).__name__, e)})
        return 2
    os.write(out, (spec["ready"] + "\n").encode())
    files = {}
    for u in spec["units"]:
        files.setdefault(u["id"].split("::")[0], []).append(u)
    for units in files.values():
        left = play(spec, units, say, spec["timeout"] * min(len(units), 6))
        if left and len(units) > 1:  # one of them took the others with it
            for u in units:
                if u["mark"] in left:
                    play(spec, [u], say, spec["timeout"])
    return 0


sys.exit(main())
