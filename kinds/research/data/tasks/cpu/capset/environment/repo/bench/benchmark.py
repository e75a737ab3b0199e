"""The size of a set of points of F_3^8 with no three on a line."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "points", 0
DIMENSIONS = 8
ALL = 3**DIMENSIONS


def third():
    """third[a][b] for digits; points are numbers, so lines are looked up by halves."""
    half = 3 ** (DIMENSIONS // 2)
    table = []
    for a in range(half):
        row = []
        for b in range(half):
            x, y, c, place = a, b, 0, 1
            while place < half:
                c += (-(x + y)) % 3 * place
                x, y, place = x // 3, y // 3, place * 3
            row.append(c)
        table.append(row)
    return half, table


def main():
    r = arena.run(["python3", "-I", "cap/cap.py"], b"", 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    words = r.stdout[: 16 * ALL].decode("ascii", "replace").split()
    if not all(len(x) == DIMENSIONS and not x.strip("012") for x in words):
        arena.reject(METRIC, WORST, "not_points", f"a point is {DIMENSIONS} digits of 0, 1, 2")
    points = sorted({int(x, 3) for x in words})
    if not points or len(points) != len(words):
        arena.reject(METRIC, WORST, "not_points", "no point, or one of them twice")
    half, table = third()
    there = bytearray(ALL)
    for p in points:
        there[p] = 1
    for i, a in enumerate(points):
        high, low = table[a // half], table[a % half]
        for b in points[i + 1:]:
            if there[high[b // half] * half + low[b % half]]:
                arena.reject(METRIC, WORST, "not_a_cap", "three points lie on a line")
    arena.finish(METRIC, len(points))


main()
