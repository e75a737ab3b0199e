"""Comparators and layers of a sorting network, which is proved to sort."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "cost", 1e6
WIRES, MOST = 17, 1000


def wires():
    """All inputs of zeros and ones at once: bit k of wire i is bit i of k."""
    total = 1 << WIRES
    out = []
    for i in range(WIRES):
        half = 1 << i
        ones = ((1 << half) - 1) << half  # one period: half zeros, half ones
        width = 2 * half
        while width < total:
            ones |= ones << width
            width *= 2
        out.append(ones)
    return out


def sorts(network):
    w = wires()
    for i, j in network:
        w[i], w[j] = w[i] & w[j], w[i] | w[j]
    return all(w[i] & ~w[i + 1] == 0 for i in range(WIRES - 1))


def layers(network):
    free = [0] * WIRES
    for i, j in network:
        free[i] = free[j] = max(free[i], free[j]) + 1
    return max(free)


def main():
    r = arena.run(["python3", "-I", "network/network.py"], b"", 20)
    if not r.ok:
        arena.reject(METRIC, WORST, "program_failed", r.stderr.decode("utf-8", "replace"))
    network = []
    for line in r.stdout[: 64 * MOST].decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) != 2 or not all(x.isascii() and x.isdigit() and len(x) < 4 for x in words):
            arena.reject(METRIC, WORST, "not_a_network", f"a comparator is two wires, not {line[:80]!r}")
        i, j = map(int, words)
        if not 0 <= i < j < WIRES:
            arena.reject(METRIC, WORST, "not_a_network", f"{i} {j} are not wires i < j below {WIRES}")
        network.append((i, j))
    if not network or len(network) > MOST:
        arena.reject(METRIC, WORST, "not_a_network", f"{len(network)} comparators: want 1 to {MOST}")
    if not sorts(network):
        arena.reject(METRIC, WORST, "not_sorting")
    arena.finish(METRIC, len(network) + layers(network) / 1000, comparators=len(network), layers=layers(network))


main()
