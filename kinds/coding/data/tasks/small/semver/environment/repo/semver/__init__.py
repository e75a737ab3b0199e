"""Semantic versions (semver.org 2.0.0)."""

from .compare import compare, sort
from .parse import Version, parse
from .ranges import max_satisfying, satisfies

__all__ = ["Version", "compare", "max_satisfying", "parse", "satisfies", "sort"]
