"""The length of a ruler all of whose distances differ."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "length", 1e9
MARKS, MOST = 30, 10**9


def main():
    r = arena.run(["python3", "-I", "ruler/ruler.py"], b"", 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    words = r.stdout[:4096].decode("ascii", "replace").split()
    if len(words) != MARKS or not all(x.isascii() and x.isdigit() and len(x) < 10 for x in words):
        arena.reject(METRIC, WORST, "not_a_ruler", f"want {MARKS} integers of 0 to {MOST - 1}, an integer a line")
    marks = sorted(map(int, words))
    distances = {b - a for i, a in enumerate(marks) for b in marks[i + 1:]}
    if 0 in distances or len(distances) != MARKS * (MARKS - 1) // 2:
        arena.reject(METRIC, WORST, "not_golomb", "two pairs of marks are the same distance apart")
    arena.finish(METRIC, marks[-1] - marks[0])


main()
