"""The sum of the radii of 26 circles in the unit square, checked exactly."""
import os
import sys
import re
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "radii", 0
CIRCLES = 26
NUMBER = re.compile(r"\d?\.\d{1,30}|[01]", re.ASCII)


def main():
    r = arena.run(["python3", "-I", "packing/packing.py"], b"", 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    circles = []
    for line in r.stdout[:8192].decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) != 3 or not all(NUMBER.fullmatch(x) for x in words):
            arena.reject(METRIC, WORST, "not_circles", f"a circle is x y r as decimals of at most 30 places, not {line[:100]!r}")
        circles.append(tuple(map(Fraction, words)))
    if len(circles) != CIRCLES:
        arena.reject(METRIC, WORST, "not_circles", f"{len(circles)} circles: want {CIRCLES}")
    for i, (x, y, s) in enumerate(circles):
        if s < 0 or not (s <= x <= 1 - s and s <= y <= 1 - s):
            arena.reject(METRIC, WORST, "outside", f"circle {i + 1} leaves the square")
        for j, (u, v, t) in enumerate(circles[:i]):
            if (x - u) ** 2 + (y - v) ** 2 < (s + t) ** 2:
                arena.reject(METRIC, WORST, "overlap", f"circles {j + 1} and {i + 1} overlap")
    arena.finish(METRIC, float(sum(s for _, _, s in circles)))


main()
