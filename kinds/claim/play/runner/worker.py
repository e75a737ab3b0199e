# One invocation in a forked process: load the script, call its entrypoint,
# write one frame. What is in the frame is the script's word.
import asyncio
import contextvars
import fcntl
import inspect
import json
import math
import os
import resource
import signal
import sys
import traceback
import types

import agon_confine
import agon_sdk
from agon_sdk import client as tool_client
from agon_sdk import entry
from agon_sdk.models import plain

MAX_FRAME = 64 << 20
SEED_ENTRY = "evaluate_criterion"
_MAX_ERROR = 4 << 10
_MAX_TRACE = 16 << 10


class NotJson(TypeError):
    pass


def exact(value):
    """Check that value is made of exact JSON types, without NaN. Not recursive: depth is bounded here."""
    stack = [(value, 0)]
    while stack:
        v, depth = stack.pop()
        kind = type(v)
        if kind in (str, int, bool, type(None)):
            continue
        if kind is float:
            if not math.isfinite(v):
                raise NotJson("the result holds a number that JSON has not (NaN or infinity)")
        elif depth > 200:
            raise NotJson("the result is nested deeper than 200")
        elif kind is list:
            stack += [(x, depth + 1) for x in v]
        elif kind is dict:
            for k, x in v.items():
                if type(k) is not str:
                    raise NotJson("the result holds a key that is not a text")
                stack.append((x, depth + 1))
        else:
            raise NotJson(f"the result holds a value of type {kind.__name__[:100]}")


def frame(status, **body):
    return json.dumps({"status": status, **body}, allow_nan=False, separators=(",", ":")).encode()


def failure(code, error):
    """Describe an exception of the script. Its own __str__ may do anything."""
    try:
        text = str(error)
    except BaseException:
        text = "<unprintable>"
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except BaseException:
        trace = ""
    return frame(
        "error",
        error={
            "code": code,
            "exception": str(type(error).__name__)[:200],
            "error": text[:_MAX_ERROR].encode("utf-8", "replace").decode(),
            "traceback": trace[-_MAX_TRACE:].encode("utf-8", "replace").decode(),
        },
    )


def send(fd, data):
    if len(data) > MAX_FRAME:
        data = frame("error", error={"code": "ResultTooLarge", "exception": "ResultTooLarge", "error": f"the result has more than {MAX_FRAME} bytes", "traceback": ""})
    view = memoryview(len(data).to_bytes(8, "big") + data)
    while view:
        view = view[os.write(fd, view):]


def prepare(path):
    """Compile the script. What is wrong with it is told when a call comes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        source = bytearray()
        while b := os.read(fd, 64 << 10):
            source += b
        os.close(fd)
        return compile(bytes(source), path, "exec", dont_inherit=True), None
    except BaseException as e:
        return None, e


def load(path, code):
    module = types.ModuleType("agent")
    module.__file__ = path
    sys.modules["agent"] = module
    exec(code, module.__dict__)


def invoke(config, job, fd, prepared, runner):
    """Run one invocation. Names that the script could change are bound before it is loaded."""
    send_, failure_, frame_, exact_, plain_, lookup = send, failure, frame, exact, plain, entry.registry.get
    run, error_types = runner.run, BaseException
    name = job["entrypoint"]
    if not config.path or not os.path.isfile(config.path):
        return send_(fd, failure_("MissingEntrypoint", KeyError(name)))
    try:
        if job["session"] and job["host"]:
            tool_client.bind(tool_client.ToolClient(job["host"], job["token"], job["session"]))
        elif name == SEED_ENTRY:  # of the later era only a tool call fails without them
            raise RuntimeError("the session id and the host container url are needed")
    except error_types as e:
        return send_(fd, failure_("UnhandledException", e))
    code, error = prepared
    try:
        if error is not None:
            raise error
        load(config.path, code)
    except error_types as e:
        return send_(fd, failure_("PreloadFailed", e))
    try:
        function = lookup(name)
    except KeyError as e:
        return send_(fd, failure_("MissingEntrypoint", e))
    try:
        result = plain_(run(call(function, job["payload"]), context=contextvars.copy_context()))
        exact_(result)
        data = frame_("ok", result=result)
    except error_types as e:
        return send_(fd, failure_("UnhandledException", e))
    send_(fd, data)


async def call(function, payload):
    name = next(iter(inspect.signature(function).parameters))
    return await function(**{name: payload})


def receive(fd):
    """Read the one job; None if the server has gone."""
    data = bytearray()
    while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "big"):
        b = os.read(fd, 64 << 10)
        if not b:
            return None
        data += b
    return json.loads(data[8:])


def streams():
    """Standard input, output and error as texts. Made once, before any fork: they hold nothing but their numbers."""
    return (
        open(0, "r", closefd=False),
        open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False),
        open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False),
    )


def main(config, texts, jobs, fd, out, err):
    """Never returns. A job comes on jobs and its frame goes to fd; out and err
    replace standard output and error, which texts, of streams, write to.
    Everything that can be done before a job is there is done first."""
    code = 70
    try:
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(s, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        if min(jobs, fd, out, err) < 5:  # none of the four may be overwritten before it is moved
            jobs, fd, out, err = (fcntl.fcntl(x, fcntl.F_DUPFD, 64) for x in (jobs, fd, out, err))
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (err, 2), (fd, 3), (jobs, 4)):
            if source != target:
                os.dup2(source, target)
        os.closerange(5, 4096)
        asyncio._set_running_loop(None)
        if config.memory:
            resource.setrlimit(resource.RLIMIT_AS, (config.memory, config.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin, sys.stdout, sys.stderr = texts
        sys.argv = ["agent"]
        runner = asyncio.Runner()
        runner.get_loop()
        if config.confine:
            agon_confine.confine()
        prepared = prepare(config.path)
        job = receive(4)
        os.close(4)
        if job is not None:
            invoke(config, job, 3, prepared, runner)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
