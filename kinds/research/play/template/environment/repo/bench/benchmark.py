"""Comparisons of a sort. Replace it: measure what the submission cannot say itself."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "comparisons", 1e9


def main():
    hidden = os.environ.get("AGON_HIDDEN")
    if hidden:
        with open(os.path.join(hidden, "lines.txt"), encoding="utf-8") as f:
            lines = f.read().splitlines()
    else:
        lines = [str(i * 7919 % 1000) for i in range(40)]
    r = arena.run(["python3", "-I", "submission/solve.py"], "\n".join(lines).encode(), 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    *got, count = r.stdout.decode("utf-8", "replace").splitlines() or [""]
    if got != sorted(lines) or not count.isdigit():
        arena.reject(METRIC, WORST, "wrong_answer")
    arena.finish(METRIC, int(count))


main()
