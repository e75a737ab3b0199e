"""URL routing."""

from .errors import MethodNotAllowed, NotFound, RouteError
from .router import Match, Router

__all__ = ["Match", "MethodNotAllowed", "NotFound", "RouteError", "Router"]
