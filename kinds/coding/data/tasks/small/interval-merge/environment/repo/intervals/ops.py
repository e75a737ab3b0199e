"""Operations on lists of intervals. None of them changes its arguments."""

from .interval import Interval


def merge(intervals):
    """Joins intervals that overlap or touch; the result is sorted and disjoint."""
    ordered = sorted(intervals, key=lambda i: (i.start, i.end))
    merged = []
    for item in ordered:
        if merged and item.start < merged[-1].end:
            last = merged.pop()
            merged.append(Interval(last.start, max(last.end, item.end)))
        else:
            merged.append(item)
    return merged


def coverage(intervals):
    """Total length covered; what lies under several intervals counts once."""
    return sum(i.length() for i in merge(intervals))


def free_slots(busy, start, end):
    """The gaps that busy leaves within [start, end)."""
    slots = []
    cursor = start
    for item in merge(busy):
        if item.end <= start or item.start >= end:
            continue
        if item.start > cursor:
            slots.append(Interval(cursor, item.start))
        cursor = max(cursor, item.end)
    if cursor < end:
        slots.append(Interval(cursor, end))
    return slots


def subtract(whole, cuts):
    """Parts of the interval whole that no cut covers."""
    return free_slots(cuts, whole.start, whole.end)
