"""Figures of plays: paired tests, intervals, pass@k. Exact where that is cheap; standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence


def paired_p(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Two-sided exact p-value of McNemar's test: of the pairs that differ, how likely is so uneven a split by chance?"""
    if len(before) != len(after):
        raise ValueError(f"{len(before)} and {len(after)} outcomes are no pairs")
    gained = sum(b and not a for a, b in zip(before, after))
    lost = sum(a and not b for a, b in zip(before, after))
    n = gained + lost
    if n == 0:
        return 1.0
    tail: float = sum(math.comb(n, i) for i in range(min(gained, lost) + 1)) / 2**n
    return min(1.0, 2 * tail)


def interval(solved: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's interval of a share, 95 % by default."""
    if n == 0:
        return 0.0, 1.0
    p = solved / n
    mid, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    d = 1 + z * z / n
    return max(0.0, (mid - half) / d), min(1.0, (mid + half) / d)


def difference(before: Sequence[bool], after: Sequence[bool], z: float = 1.959964) -> tuple[float, float, float]:
    """Mean gain of pairs with its 95 % interval (normal, with the variance of the pairs)."""
    if len(before) != len(after) or not before:
        raise ValueError("want as many outcomes before as after, and at least one")
    d = [int(b) - int(a) for a, b in zip(before, after)]
    n, mean = len(d), sum(d) / len(d)
    half = z * math.sqrt(sum((x - mean) ** 2 for x in d) / max(n - 1, 1) / n)
    return mean, mean - half, mean + half


def pass_at(plays: Sequence[Sequence[bool]], k: int) -> float | None:
    """Mean over tasks of the chance that one of k plays solves it (unbiased); None where no task has k plays."""
    known = [(len(p), sum(p)) for p in plays if len(p) >= k]
    if not known:
        return None
    return sum(1 - math.comb(n - c, k) / math.comb(n, k) for n, c in known) / len(known)
