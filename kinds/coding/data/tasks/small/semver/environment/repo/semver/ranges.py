"""Ranges: comparators separated by blanks, all of which must hold."""

from .compare import compare, sort

_OPERATORS = {
    ">=": lambda c: c >= 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    "<": lambda c: c < 0,
    "=": lambda c: c == 0,
}


def satisfies(version, spec):
    return all(_holds(version, part) for part in spec.split())


def max_satisfying(versions, spec):
    """The newest of versions that satisfies spec, or None."""
    fitting = [v for v in versions if satisfies(v, spec)]
    return sort(fitting)[-1] if fitting else None


def _holds(version, part):
    for operator in (">=", "<=", ">", "<", "="):
        if part.startswith(operator):
            return _OPERATORS[operator](compare(version, part[len(operator):]))
    return compare(version, part) == 0
