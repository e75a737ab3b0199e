"""Precedence of versions (rule 11). Build metadata never counts."""

from functools import cmp_to_key

from .parse import parse


def compare(left, right):
    """-1, 0 or 1 as left is older than, equal to or newer than right."""
    a, b = parse(left), parse(right)
    core_a = (a.major, a.minor, a.patch)
    core_b = (b.major, b.minor, b.patch)
    if core_a != core_b:
        return -1 if core_a < core_b else 1
    return _compare_prerelease(a.prerelease, b.prerelease)


def _compare_prerelease(a, b):
    if a == b:
        return 0
    if not a or not b:
        return -1 if not a else 1
    for x, y in zip(a, b):
        if x == y:
            continue
        return _compare_identifier(x, y)
    return -1 if len(a) < len(b) else 1


def _compare_identifier(x, y):
    # Numbers come before words (rule 11.4.3).
    if isinstance(x, int) and isinstance(y, int):
        return -1 if x < y else 1
    if isinstance(x, int):
        return -1
    if isinstance(y, int):
        return 1
    return -1 if x < y else 1


def sort(versions):
    """Versions from oldest to newest."""
    return sorted(versions, key=cmp_to_key(compare))
