"""Seconds for a product of two polynomials, checked at random points."""
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "seconds", 1e6
LENGTH, RUNS = 3600, 2
PRIME = 2**61 - 1


def at(poly, x):
    v = 0
    for c in reversed(poly):
        v = (v * x + c) % PRIME
    return v


def main():
    rng = random.Random(int(os.environ.get("AGON_SEED", "1")))
    best = cpu = WORST
    for _ in range(RUNS):
        a, b = ([rng.randrange(1000) for _ in range(LENGTH)] for _ in range(2))
        r = arena.run(["python3", "-I", "kernel/kernel.py"], f"{' '.join(map(str, a))}\n{' '.join(map(str, b))}\n".encode(), 30)
        if not r.ok:
            arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
        try:
            c = [int(x) for x in r.stdout.split()]
        except ValueError:
            arena.reject(METRIC, WORST, "not_integers")
        x = random.SystemRandom().randrange(PRIME)
        if len(c) != 2 * LENGTH - 1 or max(c) >= 1000 * 1000 * LENGTH or min(c) < 0 or at(c, x) != at(a, x) * at(b, x) % PRIME:
            arena.reject(METRIC, WORST, "wrong_answer")
        best, cpu = min(best, r.wall), min(cpu, r.cpu)
    arena.finish(METRIC, best, cpu_seconds=cpu)


main()
