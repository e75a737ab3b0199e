"""What a template is made of."""

import html
from collections import namedtuple

from .errors import TemplateError

FILTERS = {
    "upper": lambda value: str(value).upper(),
    "lower": lambda value: str(value).lower(),
    "length": len,
    "join": lambda value: ", ".join(str(v) for v in value),
}

Text = namedtuple("Text", "text")
Value = namedtuple("Value", "path filters")
For = namedtuple("For", "name path body")
If = namedtuple("If", "path then otherwise")
Set = namedtuple("Set", "name path")


def evaluate(path, context):
    """The value of a dotted path: keys of dicts, positions in lists."""
    first, *rest = path.split(".")
    if first not in context:
        raise TemplateError("unknown name: %s" % first)
    value = context[first]
    for part in rest:
        try:
            value = value[int(part) if part.isdigit() else part]
        except (KeyError, IndexError, TypeError):
            raise TemplateError("unknown name: %s" % path) from None
    return value


def output(node, context):
    """The text of a Value node."""
    value = evaluate(node.path, context)
    for name in node.filters:
        if name == "raw":
            return str(value)
        if name not in FILTERS:
            raise TemplateError("unknown filter: %s" % name)
        value = FILTERS[name](value)
    return html.escape(str(value))
