"""Patterns to lists of parts."""

import re
from collections import namedtuple

from .errors import RouteError

Part = namedtuple("Part", "kind text")

STATIC, INT, ANY, REST = "static", "int", "any", "rest"

_PARAMETER = re.compile(r"\A\{([a-z_][a-z0-9_]*)(?::(int|rest))?\}\Z")


def parse(pattern):
    """Parts of a pattern; for parameters text is the name."""
    if not pattern.startswith("/"):
        raise RouteError("pattern must start with /: %s" % pattern)
    parts = []
    for piece in split(pattern):
        match = _PARAMETER.match(piece)
        if match:
            parts.append(Part(match.group(2) or ANY, match.group(1)))
        elif "{" in piece or "}" in piece:
            raise RouteError("bad parameter: %s" % piece)
        else:
            parts.append(Part(STATIC, piece))
    if any(part.kind == REST for part in parts[:-1]):
        raise RouteError("rest must be the last part: %s" % pattern)
    names = [part.text for part in parts if part.kind != STATIC]
    if len(names) != len(set(names)):
        raise RouteError("parameter used twice: %s" % pattern)
    return parts


def split(path):
    """Pieces between slashes; one slash at the end does not matter."""
    pieces = path.split("/")[1:]
    if pieces and pieces[-1] == "":
        pieces.pop()
    return pieces
