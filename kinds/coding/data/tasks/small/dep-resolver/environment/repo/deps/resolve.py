"""Orders over a graph."""

from .errors import CycleError, MissingError


def install_order(graph, roots):
    """Packages reachable from roots, each after everything that it needs."""
    order = []
    visiting = []
    for root in roots:
        _visit(graph, root, None, visiting, order)
    return order


def _visit(graph, name, wanted_by, visiting, order):
    if name not in graph:
        raise MissingError(name, wanted_by)
    if name in visiting:
        raise CycleError(visiting + [name])
    visiting.append(name)
    for need in graph.needs(name):
        _visit(graph, need, name, visiting, order)
    order.append(name)


def levels(graph, roots):
    """Groups install_order into batches that can be installed at once."""
    level = {}
    for name in install_order(graph, roots):
        level[name] = 1 + max((level[need] for need in graph.needs(name)), default=-1)
    batches = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name, number in level.items():
        batches[number].append(name)
    return batches
