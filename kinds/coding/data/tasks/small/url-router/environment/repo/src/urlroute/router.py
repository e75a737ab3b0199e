"""The router: a tree of parts."""

from collections import namedtuple

from . import pattern as patterns
from .errors import MethodNotAllowed, NotFound, RouteError

Match = namedtuple("Match", "handler params")


class _Node:
    def __init__(self):
        self.static = {}
        # Parameter nodes by kind. Routes may name the same parameter differently, so
        # names are kept with the handler.
        self.param = {}
        self.handlers = {}


class Router:
    def __init__(self):
        self._root = _Node()

    def add(self, method, pattern, handler):
        node, names = self._root, []
        for part in patterns.parse(pattern):
            if part.kind == patterns.STATIC:
                node = node.static.setdefault(part.text, _Node())
            else:
                node = node.param.setdefault(part.kind, _Node())
                names.append(part.text)
        if method in node.handlers:
            raise RouteError("route exists: %s %s" % (method, pattern))
        node.handlers[method] = (handler, names)

    def match(self, method, path):
        """The handler for method and path with its parameters.

        Static parts go before int, int before plain parameters, those before rest.
        """
        node, values = self._find(patterns.split(path))
        if node is None or not node.handlers:
            raise NotFound(path)
        if method not in node.handlers:
            raise MethodNotAllowed(node.handlers)
        handler, names = node.handlers[method]
        return Match(handler, dict(zip(names, values)))

    def _find(self, pieces):
        node, values = self._root, []
        for i, piece in enumerate(pieces):
            if piece in node.static:
                node = node.static[piece]
            elif patterns.INT in node.param and _is_int(piece):
                node = node.param[patterns.INT]
                values.append(int(piece))
            elif patterns.ANY in node.param and piece:
                node = node.param[patterns.ANY]
                values.append(piece)
            elif patterns.REST in node.param:
                return node.param[patterns.REST], values + ["/".join(pieces[i:])]
            else:
                return None, values
        return node, values


def _is_int(piece):
    return piece.isascii() and piece.isdigit()
