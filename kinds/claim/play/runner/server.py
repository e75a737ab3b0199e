# The sandbox protocol over HTTP: one process, one thread, one fork for each
# invocation. The script is never loaded here.
import asyncio
import errno
import gc
import json
import os
import resource
import signal
import sys

import agon_confine
import agon_sdk  # noqa: F401  imported once, so that forks have it
import agon_warm
import agon_worker
import caster_miner_sdk  # noqa: F401
import harnyx_miner_sdk  # noqa: F401

MAX_HEAD = 64 << 10
MAX_BODY = 8 << 20
MAX_FRAME = agon_worker.MAX_FRAME
MAX_OUTPUT = 64 << 10  # of one stream of one invocation; the rest is counted
GRACE = 1.0
BIG = 1 << 20  # frames above it are parsed in a process of their own
PARALLEL = 64
# The words that a frame may carry: none of them blames a validator.
CODES = {"MissingEntrypoint": 404, "UnhandledException": 500, "PreloadFailed": 500, "ResultTooLarge": 500}


class Config:
    def __init__(self, env):
        self.path = env.get("CASTER_AGENT_PATH") or env.get("AGENT_PATH") or ""
        self.host = env.get("SANDBOX_HOST") or "127.0.0.1"
        self.port = int(env.get("SANDBOX_PORT") or 8000)
        self.timeout = float(env.get("ENTRYPOINT_TIMEOUT_SECONDS") or 120)
        if not 0 < self.timeout < float("inf"):
            raise ValueError("ENTRYPOINT_TIMEOUT_SECONDS: want a number above 0")
        if env.get("CASTER_AGENT_MODULE"):
            raise ValueError("CASTER_AGENT_MODULE is not supported: set CASTER_AGENT_PATH")
        self.memory = int(env.get("AGON_WORKER_MEMORY") or 0)
        self.confine = env.get("AGON_WORKER_CONFINE") != "0"


class Refuse(Exception):
    def __init__(self, status, detail):
        self.status, self.detail = status, detail


class Broken(Exception):
    """The worker left no frame, or none that can be read."""


def log(word, **data):
    line = json.dumps({"type": word, **data}, separators=(",", ":"))
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        pass


def invalid(where, message):
    return Refuse(422, [{"type": "value_error", "loc": where, "msg": message}])


def decode(raw):
    """Strict JSON: no duplicate names, no NaN."""

    def pairs(items):
        out = dict(items)
        if len(out) != len(items):
            raise ValueError("a name is given twice")
        return out

    def constant(name):
        raise ValueError(name)

    return json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)


def check_frame(raw):
    """Return (status, body) of a worker's frame, or raise ValueError."""
    v = decode(raw)
    if not isinstance(v, dict):
        raise ValueError("not an object")
    if v.get("status") == "ok" and set(v) == {"status", "result"}:
        return 200, {"ok": True, "result": v["result"]}
    e = v.get("error")
    if v.get("status") != "error" or set(v) != {"status", "error"} or not isinstance(e, dict):
        raise ValueError("unknown status")
    if set(e) != {"code", "exception", "error", "traceback"} or not all(isinstance(x, str) for x in e.values()):
        raise ValueError("unknown error")
    if e["code"] not in CODES:
        raise ValueError("unknown code")
    return CODES[e["code"]], {"detail": e}


def check_big(raw, memory):
    """Parse a large frame in a process of its own, which may be killed by it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            status, _ = check_frame(raw)
            code = 0 if status == 200 else 1
        except BaseException:
            pass
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    head, tail = b'{"status":"ok","result":', b"}"
    if status != 0 or not raw.startswith(head) or not raw.endswith(tail):
        raise Broken("ValueError")
    return 200, b'{"ok":true,"result":' + raw[len(head):]


class Invocation:
    """A forked worker with its pipes. It waits for its job, which comes once."""

    def __init__(self, server):
        self.server, self.job = server, None
        self.loop = server.loop
        self.done = self.loop.create_future()
        self.exited = self.loop.create_future()
        self.over = False  # nothing is left of it
        self.data = bytearray()
        self.want = None
        self.pid = 0
        self.fds = {}
        self.output = {"stdout": [bytearray(), 0], "stderr": [bytearray(), 0]}
        pairs = [os.pipe() for _ in range(4)]
        try:
            self.pid = os.fork()
        except OSError:
            for r, w in pairs:
                os.close(r)
                os.close(w)
            raise Broken("OSError") from None
        if self.pid == 0:
            agon_worker.main(server.config, server.texts, pairs[3][0], pairs[0][1], pairs[1][1], pairs[2][1])
        for (r, w), name in zip(pairs, ("frame", "stdout", "stderr")):
            os.close(w)
            os.set_blocking(r, False)
            self.fds[name] = r
            self.loop.add_reader(r, self.read, name)
        os.close(pairs[3][0])
        os.set_blocking(pairs[3][1], False)
        self.jobs = pairs[3][1]
        server.workers[self.pid] = self

    def give(self, job):
        """Hand over the job, as fast as the worker takes it."""
        self.job = job
        body = json.dumps(job, separators=(",", ":")).encode()
        self.rest = memoryview(len(body).to_bytes(8, "big") + body)
        self.write()

    def write(self):
        try:
            while self.rest:
                self.rest = self.rest[os.write(self.jobs, self.rest):]
        except BlockingIOError:
            self.loop.add_writer(self.jobs, self.write)
            return
        except OSError:
            pass  # the worker has gone: its frame's end says so
        self.close_jobs()

    def close_jobs(self):
        if self.jobs >= 0:
            self.loop.remove_writer(self.jobs)
            os.close(self.jobs)
            self.jobs = -1

    def read(self, name):
        try:
            b = os.read(self.fds[name], 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            b = b""
        if not b:
            self.shut(name)
        elif name == "frame":
            self.frame(b)
        else:
            kept = self.output[name]
            room = MAX_OUTPUT - len(kept[0])
            kept[0] += b[:room]
            kept[1] += len(b) - len(b[:room])

    def shut(self, name):
        fd = self.fds.pop(name, None)
        if fd is not None:
            self.loop.remove_reader(fd)
            os.close(fd)
        if name == "frame" and not self.done.done():
            self.done.set_exception(Broken("EOFError"))

    def late(self):
        """Its time is over."""
        if not self.done.done():
            self.done.set_exception(TimeoutError())

    def reap(self):
        """Look whether it has ended. Every worker is asked for alone: a signal for each end would cost more."""
        if not self.exited.done():
            try:
                got, _ = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                got = self.pid
            if got:
                self.exited.set_result(None)
        return self.exited.done()

    async def ends(self, wait):
        """Wait until it has ended, at most so many seconds; None waits for ever."""
        pause, limit = 0.0005, None if wait is None else self.loop.time() + wait
        while not self.reap() and (limit is None or self.loop.time() < limit):
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)
        return self.exited.done()

    def leave(self, tries=0):
        """See it off that has said all it will say: it has a moment to leave, which costs nobody time."""
        if self.reap():
            self.finish()
        elif tries < 8:
            self.loop.call_later(0.0008 * 2**tries, self.leave, tries + 1)
        else:
            self.server.see_off(self)

    def frame(self, b):
        if self.done.done():
            return
        self.data += b
        if self.want is None and len(self.data) >= 8:
            self.want = int.from_bytes(self.data[:8], "big")
            del self.data[:8]
            if self.want > MAX_FRAME:
                self.done.set_exception(Refuse(500, {"code": "ResultTooLarge", "exception": "ResultTooLarge", "error": f"the result has more than {MAX_FRAME} bytes"}))
                return
        if self.want is not None and len(self.data) >= self.want:
            self.done.set_result(bytes(self.data[: self.want]))

    async def end(self):
        """Kill what is left of the worker and wait until it is gone."""
        self.close_jobs()
        for sig, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
            if self.reap():
                break
            try:
                os.kill(self.pid, sig)
            except ProcessLookupError:
                pass
            await self.ends(wait)
        self.finish()

    def finish(self):
        """Read what it left, and tell of it."""
        if self.over:
            return
        self.over = True
        self.close_jobs()
        for name in ("stdout", "stderr"):
            if name in self.fds:
                for _ in range(64):  # what still stands in the pipe
                    before = self.fds.get(name)
                    n = len(self.output[name][0]) + self.output[name][1]
                    self.read(name)
                    if before not in self.fds.values() or len(self.output[name][0]) + self.output[name][1] == n:
                        break
        for name in list(self.fds):
            self.shut(name)
        if self.done.done() and not self.done.cancelled():
            self.done.exception()  # seen
        self.server.workers.pop(self.pid, None)
        for name, (text, dropped) in self.output.items():
            if self.job is not None and (text or dropped):
                log("output", session_id=self.job["session"], entrypoint=self.job["entrypoint"], stream=name, message=text.decode("utf-8", "replace"), dropped=dropped)


class Server:
    def __init__(self, config):
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.texts = agon_worker.streams()
        self.workers = {}
        self.spare = None  # a worker that waits for the next job
        self.ending = set()  # tasks that see workers off
        self.slots = asyncio.Semaphore(PARALLEL)

    def prefork(self):
        """Keep one worker ready."""
        if self.spare is None:
            try:
                self.spare = Invocation(self)
            except (Broken, OSError):
                pass

    def take(self):
        inv, self.spare = self.spare, None
        if inv is not None and inv.done.done():  # it died while it waited
            self.see_off(inv)
            inv = None
        return inv or Invocation(self)

    def see_off(self, inv):
        task = asyncio.ensure_future(inv.end())
        self.ending.add(task)
        task.add_done_callback(self.ending.discard)

    async def invoke(self, job):
        inv = self.take()
        inv.give(job)
        self.loop.call_soon(self.prefork)
        timer = self.loop.call_later(self.config.timeout, inv.late)
        leaves = False  # by itself, while the answer is on its way
        try:
            try:
                raw = await inv.done
            except TimeoutError:
                return 504, {"detail": {"error": f"entrypoint exceeded {self.config.timeout}s", "exception": "TimeoutError"}}
            leaves = True
            self.loop.call_soon(inv.leave)
            if len(raw) > BIG:
                return check_big(raw, self.config.memory)
            try:
                return check_frame(raw)
            except (ValueError, RecursionError, MemoryError) as e:
                raise Broken(type(e).__name__) from None
        except Broken as e:
            return 500, {"detail": {"error": "entrypoint worker failed", "exception": str(e)}}
        finally:
            timer.cancel()
            if not leaves:
                await asyncio.shield(inv.end())

    async def route(self, method, path, headers, body):
        path = path.split("?")[0]
        if path == "/healthz":
            if method != "GET":
                raise Refuse(405, "Method Not Allowed")
            return 200, {"status": "ok"}
        if not path.startswith("/entry/") or "/" in path[7:] or not path[7:]:
            raise Refuse(404, "Not Found")
        if method != "POST":
            raise Refuse(405, "Method Not Allowed")
        try:
            v = decode(body)
        except (ValueError, RecursionError):
            raise invalid(["body"], "JSON decode error") from None
        if not isinstance(v, dict):
            raise invalid(["body"], "Input should be an object")
        for key in ("payload", "context"):
            if not isinstance(v.get(key, {} if key == "context" else None), dict):
                raise invalid(["body", key], "Input should be an object")
        if v.get("tool_config") is not None and not isinstance(v["tool_config"], dict):
            raise invalid(["body", "tool_config"], "Input should be an object")

        def header(*names):
            return next((headers[n] for n in names if headers.get(n)), "")

        token = header("x-caster-token", "x-platform-token")
        if not token:
            raise Refuse(401, "missing x-caster-token header")
        if v.get("tool_config"):
            raise Refuse(500, {"code": "UnhandledException", "exception": "ValueError", "error": "tool_config is not supported"})
        job = {
            "entrypoint": path[7:], "payload": v["payload"], "context": v.get("context", {}), "token": token,
            "session": header("x-caster-session-id", "x-session-id"),
            "host": header("x-caster-host-container-url", "x-host-container-url") or os.environ.get("CASTER_HOST_CONTAINER_URL", ""),
        }
        async with self.slots:
            return await self.invoke(job)

    async def request(self, reader, writer):
        """Serve one request; False when the connection is at its end."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        except asyncio.LimitOverrunError:
            self.answer(writer, 431, {"detail": "headers too large"}, False)
            return False
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            self.answer(writer, 400, {"detail": "bad request"}, False)
            return False
        headers = {}
        for line in lines[1:]:
            name, sep, value = line.partition(":")
            if sep:
                headers[name.strip().lower()] = value.strip()
        keep = parts[2] != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        size = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not size.isdigit() or len(size) > 12:
            self.answer(writer, 411, {"detail": "a content length is needed"}, False)
            return False
        if int(size) > MAX_BODY:
            self.answer(writer, 413, {"detail": f"body larger than {MAX_BODY} bytes"}, False)
            return False
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(size))
        work = asyncio.ensure_future(self.route(parts[0], parts[1], headers, body))
        # A caller that goes away ends its worker; nobody waits for the answer.
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            if gone.result() == b"":
                work.cancel()
            keep = False  # more bytes than the request had
        try:
            status, answer = await work
        except asyncio.CancelledError:
            return False
        except Refuse as e:
            status, answer = e.status, {"detail": e.detail}
        except OSError as e:
            status, answer = 500, {"detail": {"error": "entrypoint worker failed", "exception": type(e).__name__}}
        if not gone.done():
            gone.cancel()
            try:
                await gone
            except asyncio.CancelledError:
                pass
        elif keep:
            keep = False
        self.answer(writer, status, answer, keep)
        await writer.drain()
        return keep

    @staticmethod
    def answer(writer, status, body, keep):
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode("utf-8", "replace")
        writer.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n%b"
            % (status, b"OK" if status == 200 else b"Error", len(data), b"keep-alive" if keep else b"close", data)
        )

    async def connection(self, reader, writer):
        try:
            while await self.request(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def serve(self):
        loop = self.loop
        stop = loop.create_future()

        def finish(*_):
            if not stop.done():
                stop.set_result(None)

        for s in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(s, finish)
        if os.environ.get("AGON_WATCH_STDIN") == "1":

            def stdin():
                try:
                    b = os.read(0, 4096)
                except OSError as e:
                    b = b" " if e.errno in (errno.EAGAIN, errno.EINTR) else b""
                if not b:
                    loop.remove_reader(0)
                    finish()

            try:
                loop.add_reader(0, stdin)
            except (OSError, ValueError):
                pass  # a regular file or /dev/null: the box itself ends us
        srv = await asyncio.start_server(self.connection, self.config.host, self.config.port, limit=MAX_HEAD)
        gc.collect()
        gc.freeze()  # what is here stays; forks need not touch it
        agon_confine.copy_at_fork()
        self.prefork()
        log("ready", host=self.config.host, port=srv.sockets[0].getsockname()[1])
        await stop
        srv.close()
        for pid in list(self.workers):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def main():
    agon_warm.wait()  # nothing before this line is one box's own
    try:
        config = Config(os.environ)
    except ValueError as e:
        sys.stderr.write(f"{e}\n")
        sys.exit(2)
    if not config.path or not os.path.isfile(config.path):
        sys.stderr.write("CASTER_AGENT_PATH names no file: every call will be answered 404\n")
    agon_confine.hide_memory()

    async def serve():
        await Server(config).serve()

    asyncio.run(serve())
