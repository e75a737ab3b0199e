"""Speed-up of a suite of kernels over the plain way: the harmonic mean, where
every answer is right. Each kernel runs in a box of its own, as does its reference,
and processor time is taken outside of both."""
import json
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "speedup", 0.0
CEILING = 1000.0  # a speed-up beyond is noise of the clock


def inputs(r):
    """Inputs of random shapes; the seed is the replay's."""
    n = r.randint

    def ints(k, top=1000):
        return [n(0, top) for _ in range(k)]

    def text(k, letters="abcd"):
        return "".join(r.choice(letters) for _ in range(k))

    def rows(a, b, top=99):
        return [ints(b, top) for _ in range(a)]

    yield "matmul", {"a": rows(n(95, 105), 100), "b": rows(100, n(95, 105))}
    yield "convolve", {"a": ints(n(1150, 1250)), "b": ints(n(1150, 1250))}
    yield "primes", {"limit": n(9500, 10500)}
    yield "levenshtein", {"a": text(n(620, 680)), "b": text(n(620, 680))}
    yield "subsequence", {"a": text(n(920, 980)), "b": text(n(920, 980))}
    yield "knapsack", {"room": n(4800, 5200), "weights": ints(90, 400), "values": ints(90)}
    size = n(98, 106)
    yield "all_paths", {"weights": rows(size, size, 9999)}
    yield "one_path", {"n": 180, "edges": [[n(0, 179), n(0, 179), n(1, 99)] for _ in range(n(30000, 34000))]}
    yield "inversions", {"a": ints(n(3000, 3300), 10**6)}
    yield "sliding_max", {"a": ints(n(28000, 32000), 10**6), "k": n(580, 620)}
    yield "subset_sums", {"a": [n(10**4, 10**6) for _ in range(19)], "limit": 10**7}
    yield "words", {"text": text(n(200000, 220000)), "k": 9}
    yield "queens", {"n": 8}
    yield "life", {"grid": rows(n(56, 64), 60, 1), "steps": 40}
    yield "closest", {"points": [[n(0, 10**6), n(0, 10**6)] for _ in range(n(1150, 1250))]}
    yield "fourier", {"a": [r.random() for _ in range(n(760, 800))]}
    yield "determinant", {"a": [[n(-9, 9) for _ in range(36)] for _ in range(36)]}
    yield "occurrences", {"text": text(n(48000, 52000)), "words": [text(k) for k in (3, 4, 5, 6, 7, 8, 9, 10)]}
    yield "range_sums", {"a": ints(20000), "queries": [sorted(ints(2, 20000)) for _ in range(n(4800, 5200))]}
    yield "pairs", {"a": ints(n(3100, 3300), 5000), "sum": 5000}
    yield "evaluate", {"c": ints(300), "x": ints(n(950, 1050), 10**4), "mod": 10**9 + 7}
    yield "parts", {"n": n(1150, 1250), "mod": 10**9 + 7}


def same(a, b):
    """Equal, floats within a part in a billion of the largest."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(b, float):
        return isinstance(a, (int, float)) and not isinstance(a, bool) and math.isfinite(a) and abs(a - b) <= 1e-7 * max(1.0, abs(b))
    return type(a) is type(b) and a == b


def call(where, name, data):
    return arena.run(["python3", "-I", "bench/drive.py", where, name], json.dumps(data).encode(), 60)


def main():
    r = random.Random(int(os.environ.get("AGON_SEED", "1")))
    ups = {}
    for name, data in inputs(r):
        want = call("bench/reference.py", name, data)
        if not want.ok:
            raise SystemExit(f"the reference of {name} fails: {want.limit} {want.stderr[-500:]!r}")
        got = call("suite/kernels.py", name, data)
        if not got.ok:
            arena.reject(METRIC, WORST, "program_failed", f"{name}: {got.limit} " + got.stderr.decode("utf-8", "replace")[-1000:])
        try:
            right = same(json.loads(got.stdout), json.loads(want.stdout))
        except (ValueError, RecursionError):
            right = False
        if not right:
            arena.reject(METRIC, WORST, "wrong_answer", f"{name}: another answer than the reference's")
        ups[name] = min(CEILING, max(want.cpu, 1e-3) / max(got.cpu, 1e-3))
    arena.finish(METRIC, len(ups) / sum(1 / x for x in ups.values()), **{"up_" + k: v for k, v in ups.items()})


main()
