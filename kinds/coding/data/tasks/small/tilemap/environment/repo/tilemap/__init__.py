"""Level files."""

from .errors import BadLevel
from .level import Level
from .codec import dumps, loads

__all__ = ["BadLevel", "Level", "dumps", "load", "loads"]


def load(path):
    with open(path, "rb") as f:
        return loads(f.read())
