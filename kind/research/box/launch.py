"""Runs a miner's programs for a benchmark, as another user than the benchmark's.

The benchmark's user owns the workspace and is the only one who can read hidden
data; this process and everything it starts cannot. It listens on an abstract
socket; a request is a JSON line {args, cwd, env, timeout, stdin} followed by
stdin bytes of standard input, an answer a JSON line {code, timeout, stdout,
stderr} followed by that many bytes of each. What it answers is the miner's word:
clocks and checks are the benchmark's own.
"""
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading

MOST = 64 << 20


def read_all(pipe, keep):
    while block := pipe.read(1 << 16):
        if len(keep) < MOST:
            keep += block[: MOST - len(keep)]


def feed(pipe, data):
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        pass


def run(req, data):
    env = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0",
           "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", **{str(k): str(v) for k, v in req.get("env", {}).items()}}
    p = subprocess.Popen(req["args"], cwd=req.get("cwd") or "/workspace", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, start_new_session=True)
    out, err = bytearray(), bytearray()
    threads = [threading.Thread(target=f, args=a, daemon=True) for f, a in ((read_all, (p.stdout, out)), (read_all, (p.stderr, err)), (feed, (p.stdin, data)))]
    for t in threads:
        t.start()
    timeout = False
    try:
        p.wait(req.get("timeout"))
    except subprocess.TimeoutExpired:
        timeout = True
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except OSError:
        pass
    p.wait()
    for t in threads[:2]:
        t.join(5)
    return p.returncode, timeout, bytes(out), bytes(err)


def serve(conn):
    with conn, conn.makefile("rwb") as f:
        while line := f.readline(1 << 20):
            req = json.loads(line)
            data = f.read(min(int(req.get("stdin", 0)), MOST))
            try:
                code, timeout, out, err = run(req, data)
            except OSError as e:
                code, timeout, out, err = 127, False, b"", str(e).encode()
            head = {"code": code, "timeout": timeout, "stdout": len(out), "stderr": len(err)}
            f.write(json.dumps(head).encode() + b"\n" + out + err)
            f.flush()


def main():
    os.umask(0o022)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind("\0agon-launch")
    s.listen(8)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sel = selectors.DefaultSelector()
    sel.register(s, selectors.EVENT_READ)
    sel.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in sel.select():
            if key.fileobj is sys.stdin:
                os._exit(0)  # the benchmark has ended
            conn, _ = s.accept()
            threading.Thread(target=serve, args=(conn,), daemon=True).start()


main()
