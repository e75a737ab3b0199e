"""Cutting."""

from .page import Page


def page_count(total, size):
    """Number of pages for total rows; at least 1."""
    if size < 1:
        raise ValueError("size must be at least 1")
    return max(1, -(-total // size))


def paginate(rows, number, size):
    """The page `number` (from 1); numbers beyond the ends give the nearest page."""
    total = len(rows)
    pages = page_count(total, size)
    number = min(max(number, 1), pages)
    first = (number - 1) * size
    end = min(first + size, total)
    last = end - 1
    return Page(rows[first:last], number, pages, first, last, total)
