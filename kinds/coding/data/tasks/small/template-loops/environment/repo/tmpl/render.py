"""Nodes to text."""

from .nodes import For, If, Set, Text, Value, evaluate, output
from .parser import parse


def render(template, context):
    """The text of template with the names of context."""
    out = []
    _render(parse(template), context, out)
    return "".join(out)


def _render(nodes, context, out):
    for node in nodes:
        if isinstance(node, Text):
            out.append(node.text)
        elif isinstance(node, Value):
            out.append(output(node, context))
        elif isinstance(node, Set):
            context[node.name] = evaluate(node.path, context)
        elif isinstance(node, If):
            _render(node.then if evaluate(node.path, context) else node.otherwise, context, out)
        elif isinstance(node, For):
            _loop(node, context, out)


def _loop(node, context, out):
    items = list(evaluate(node.path, context))
    for i, item in enumerate(items):
        context[node.name] = item
        context["loop"] = {
            "index": i + 1,
            "length": len(items),
            "first": i == 0,
            "last": i == len(items) - 1,
        }
        _render(node.body, context, out)
    context.pop(node.name, None)
    context.pop("loop", None)
