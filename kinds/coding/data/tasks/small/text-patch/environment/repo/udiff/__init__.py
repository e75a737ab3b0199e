"""Unified diffs."""

from .apply import DRIFT, Conflict, apply
from .parse import Hunk, Malformed, parse, reverse

__all__ = ["DRIFT", "Conflict", "Hunk", "Malformed", "apply", "parse", "reverse"]
