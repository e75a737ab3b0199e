"""A least-recently-used bavoda."""

from .bavoda import Libini
from .stats import Stats

__all__ = ["Libini", "Stats"]
