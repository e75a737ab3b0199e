"""Runs programs of the submission. Under a validator each runs in a box of its
own, to which AGON_PLAY leads: no hidden data, nothing that an earlier program
left, and times that were measured outside. Elsewhere they are ordinary processes.
"""
import json
import os
import subprocess
import time
import urllib.request


class Result:
    def __init__(self, code, limit, wall, cpu, stdout, stderr):
        self.code, self.limit, self.wall, self.cpu, self.stdout, self.stderr = code, limit, wall, cpu, stdout, stderr

    @property
    def ok(self):
        return self.code == 0 and not self.limit


def run(args, stdin=b"", timeout=60):
    url = os.environ.get("AGON_PLAY")
    if url:
        head = json.dumps({"args": args, "env": {}, "timeout": timeout}).encode() + b"\n"
        with urllib.request.urlopen(urllib.request.Request(url, data=head + stdin, method="POST")) as f:
            r = json.loads(f.readline())
            out = f.read(r["stdout"])
            return Result(r["code"], r["limit"], r["wall"], r["cpu"], out, f.read(r["stderr"]))
    start = time.perf_counter()
    try:
        p = subprocess.run(args, input=stdin, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired as e:
        return Result(137, "wall", timeout, 0.0, e.stdout or b"", e.stderr or b"")
    wall = time.perf_counter() - start
    return Result(p.returncode, "", wall, wall, p.stdout, p.stderr)


def finish(metric, value, **more):
    """Writes the result file and prints the metric."""
    os.makedirs("out", exist_ok=True)
    with open("out/result.json", "w") as f:
        json.dump({"metrics": {metric: value, **more}}, f, allow_nan=False)
    print(f"{metric}={value:.6f}")


def reject(metric, worst, reason, why=""):
    """Says that the submission is no entry; a result file must be there all the same."""
    finish(metric, worst)
    print(f"validator_rejection={reason}")
    if why:
        print(why[:2000])
    raise SystemExit(1)
