"""The number of spheres that touch one in eleven dimensions, checked with integers."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "spheres", 0
DIMENSIONS, MOST, DIGITS = 11, 900, 30


def main():
    r = arena.run(["python3", "-I", "kiss/kiss.py"], b"", 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    vectors = []
    for line in r.stdout[: MOST * DIMENSIONS * (DIGITS + 2)].decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) != DIMENSIONS or not all(x.isascii() and x.removeprefix("-").isdigit() and len(x) <= DIGITS for x in words):
            arena.reject(METRIC, WORST, "not_vectors", f"a vector is {DIMENSIONS} integers of at most {DIGITS} digits, not {line[:80]!r}")
        vectors.append(tuple(map(int, words)))
    if not vectors or len(vectors) > MOST or not all(any(v) for v in vectors):
        arena.reject(METRIC, WORST, "not_vectors", f"want 1 to {MOST} vectors, none of them 0")
    norms = [sum(x * x for x in v) for v in vectors]
    longest = max(norms)
    for i, v in enumerate(vectors):
        a = norms[i]
        for j in range(i):
            w = vectors[j]
            if a + norms[j] - 2 * sum(x * y for x, y in zip(v, w)) < longest:
                arena.reject(METRIC, WORST, "overlap", f"spheres {j + 1} and {i + 1} overlap")
    arena.finish(METRIC, len(vectors))


main()
