"""Half-open intervals and the sets made of them."""

from .interval import Interval
from .ops import coverage, free_slots, merge, subtract

__all__ = ["Interval", "coverage", "free_slots", "merge", "subtract"]
