"""The number of products of a scheme for matrices, which is proved."""
import os
import sys
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "products", 1e6
N, M, K = 4, 5, 6  # A is N x M, B is M x K
MOST, TERMS = 120, 64


def terms(text, rows, columns):
    out = {}
    words = text.split()
    if not 1 <= len(words) <= TERMS:
        raise ValueError
    for w in words:
        value, place = w.split("*")
        i, j = place.split(",")
        if len(w) > 40 or not all(x.isascii() and x.isdigit() for x in (i, j)):
            raise ValueError
        i, j = int(i), int(j)
        top, _, under = value.partition("/")
        if not top.removeprefix("-").isdigit() or (under and not under.isdigit()) or (i, j) in out or i >= rows or j >= columns:
            raise ValueError
        out[i, j] = Fraction(int(top), int(under or 1))
    return out


def main():
    r = arena.run(["python3", "-I", "scheme/scheme.py"], b"", 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    scheme = []
    for line in r.stdout[: 1 << 20].decode("ascii", "replace").splitlines():
        try:
            a, b, c = line.split(";")
            scheme.append((terms(a, N, M), terms(b, M, K), terms(c, N, K)))
        except (ValueError, ZeroDivisionError):
            arena.reject(METRIC, WORST, "not_a_scheme", f"not a product: {line[:80]!r}")
        if len(scheme) > MOST:
            arena.reject(METRIC, WORST, "not_a_scheme", f"more than {MOST} products")
    total = {}
    for a, b, c in scheme:
        for x, u in a.items():
            for y, v in b.items():
                for z, w in c.items():
                    key = x + y + z
                    total[key] = total.get(key, 0) + u * v * w
    want = {(i, j, j, k, i, k): 1 for i in range(N) for j in range(M) for k in range(K)}
    if {x: v for x, v in total.items() if v} != want:
        arena.reject(METRIC, WORST, "not_a_product", "the scheme is no identity")
    arena.finish(METRIC, len(scheme))


main()
