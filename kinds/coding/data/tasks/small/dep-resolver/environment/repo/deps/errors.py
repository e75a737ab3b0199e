"""What can be wrong with a graph."""


class ResolveError(Exception):
    pass


class CycleError(ResolveError):
    """path lists the packages of the cycle; its first is repeated at the end."""

    def __init__(self, path):
        self.path = list(path)
        super().__init__("dependency cycle: " + " -> ".join(self.path))


class MissingError(ResolveError):
    def __init__(self, name, wanted_by=None):
        self.name = name
        self.wanted_by = wanted_by
        text = "unknown package: " + name
        if wanted_by is not None:
            text += " (wanted by " + wanted_by + ")"
        super().__init__(text)
