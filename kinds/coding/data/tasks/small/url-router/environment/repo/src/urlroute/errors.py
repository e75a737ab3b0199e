"""What can go wrong."""


class RouteError(ValueError):
    """A pattern that cannot be added."""


class NotFound(Exception):
    """No route fits the path."""


class MethodNotAllowed(Exception):
    """Routes fit the path but none of them the method; allowed is sorted."""

    def __init__(self, allowed):
        self.allowed = sorted(allowed)
        super().__init__("allowed: " + ", ".join(self.allowed))
