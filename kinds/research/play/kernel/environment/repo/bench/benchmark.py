"""Speed-up of a kernel over its reference, where every answer is right. Each runs in
a box of its own; time is taken outside of both, and nothing that they say of it counts."""
import array
import json
import math
import os
import struct
import subprocess
import time
import urllib.request

METRIC, WORST, CEILING, LEAST = "speedup", 0.0, 1000.0, 1e-3
HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "settings.json"), encoding="utf-8") as f:
    SETTINGS = json.load(f)
CODES = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "int16": "h", "int8": "b", "uint8": "B", "bool": "B"}


def run(args, stdin=b"", timeout=120):
    """Runs a program: (right, seconds, output, errors)."""
    url, args = os.environ.get("AGON_PLAY"), ["python3", "-I", "bench/drive.py", *args]
    if not url:
        start = time.perf_counter()
        p = subprocess.run(args, input=stdin, capture_output=True, timeout=timeout)
        return p.returncode == 0, time.perf_counter() - start, p.stdout, p.stderr
    head = json.dumps({"args": args, "env": {}, "timeout": timeout, "gpu": SETTINGS["gpu"]}).encode() + b"\n"
    with urllib.request.urlopen(urllib.request.Request(url, data=head + stdin, method="POST")) as f:
        r = json.loads(f.readline())
        out = f.read(r["stdout"])
        return r["code"] == 0 and not r["limit"], r.get("gpu", 0.0) if SETTINGS["gpu"] else r["cpu"], out, f.read(r["stderr"])


def finish(value, **more):
    os.makedirs("out", exist_ok=True)
    with open("out/result.json", "w") as f:
        json.dump({"metrics": {METRIC: value, **more}}, f, allow_nan=False)
    print(f"{METRIC}={value:.6f}")


def reject(reason, why=""):
    finish(WORST)
    print(f"validator_rejection={reason}")
    print(why[:2000])
    raise SystemExit(1)


def flat(v):
    if isinstance(v, list):
        for x in v:
            yield from flat(x)
    else:
        yield v


def shape(v):
    return [len(v)] + [shape(x) for x in v] if isinstance(v, list) else type(v).__name__


def numbers(d, b):
    """The numbers of an answer, as floats; ValueError if they are not numbers."""
    if d["kind"] in ("plain", "list"):
        out = list(flat(d["value"]))
        if any(type(x) not in (int, float) for x in out):
            raise ValueError("not numbers")
        return out
    if d["dtype"] == "float16":
        return [x for x, in struct.iter_unpack("<e", b)]
    if d["dtype"] == "bfloat16":
        return [struct.unpack("<f", b"\0\0" + b[i:i + 2])[0] for i in range(0, len(b), 2)]
    return array.array(CODES[d["dtype"]], b)


def parse(out):
    """The answers of a program, which may write anything."""
    line, _, rest = out.partition(b"\n")
    values = json.loads(line)["values"]
    if not isinstance(values, list) or len(values) > 10000:
        raise ValueError("no list of values")
    got = []
    for d in values:
        n = d["bytes"]
        if type(n) is not int or not 0 <= n <= len(rest):
            raise ValueError("bytes are missing")
        got.append((d, rest[:n]))
        rest = rest[n:]
    return got


def wrong(want, got):
    """Why an answer is refused, or ""."""
    (w, wb), (g, gb) = want, got
    for field in ("kind", "dtype", "shape"):
        if w.get(field) != g.get(field):
            return f"its {field} is {g.get(field)!r}, the reference's is {w.get(field)!r}"
    if w["kind"] in ("plain", "list") and shape(w["value"]) != shape(g["value"]):
        return "its lists or numbers are of another shape or type than the reference's"
    a, b = numbers(w, wb), numbers(g, gb)
    if len(a) != len(b):
        return f"it has {len(b)} numbers, the reference {len(a)}"
    size = sum(abs(x) for x in a) / max(1, len(a))
    for x, y in zip(a, b):
        if math.isfinite(x) and not (math.isfinite(y) and abs(x - y) <= SETTINGS["tolerance"] * (abs(x) + size)):
            return f"{y!r} where the reference has {x!r}"
    return ""


def main():
    seed = int(os.environ.get("AGON_SEED", "1"))
    ok, _, made, err = run(["make", str(seed), str(SETTINGS["calls"])])
    if not ok:
        raise SystemExit(f"the reference's inputs cannot be made: {err[-500:]!r}")
    ok, start, _, err = run(["run", "bench/reference.py", "Model"], b'{"values": []}\n')
    if not ok:
        raise SystemExit(f"the reference does not start: {err[-500:]!r}")
    ok, slow, out, err = run(["run", "bench/reference.py", "Model"], made)
    if not ok:
        raise SystemExit(f"the reference fails: {err[-500:]!r}")
    want = parse(out)
    ok, fast, out, err = run(["run", "solution.py", "ModelNew"], made)
    if not ok:
        reject("program_failed", err.decode("utf-8", "replace")[-1000:])
    try:
        got = parse(out)
        why = "" if len(got) == len(want) else f"{len(got)} answers, {len(want)} are wanted"
        for w, g in zip(want, got):
            why = why or wrong(w, g)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as e:
        why = f"no answer: {type(e).__name__}"
    if why:
        reject("wrong_answer", why)
    up = min(CEILING, max(slow - start, LEAST) / max(fast - start, LEAST))
    finish(up, reference_seconds=slow, solution_seconds=fast, start_seconds=start)


main()
