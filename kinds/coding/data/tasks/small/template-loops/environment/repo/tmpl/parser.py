"""Tokens to nodes."""

import re

from .errors import TemplateError
from .lexer import tokens
from .nodes import For, If, Set, Text, Value

_NAME = r"([A-Za-z_]\w*)"
_PATH = r"([A-Za-z_]\w*(?:\.\w+)*)"
_FOR = re.compile(r"\Afor\s+%s\s+in\s+%s\Z" % (_NAME, _PATH))
_IF = re.compile(r"\Aif\s+%s\Z" % _PATH)
_SET = re.compile(r"\Aset\s+%s\s*=\s*%s\Z" % (_NAME, _PATH))
_VALUE = re.compile(r"\A%s\Z" % _PATH)


def parse(text):
    stream = tokens(text)
    nodes, end = _block(stream, 0, ())
    return nodes


def _block(stream, pos, ends):
    """Nodes up to one of the ends, and the position of that end."""
    nodes = []
    while pos < len(stream):
        kind, content = stream[pos]
        if kind == "text":
            nodes.append(Text(content))
        elif kind == "value":
            nodes.append(_value(content))
        elif content in ends:
            return nodes, pos
        elif _FOR.match(content):
            name, path = _FOR.match(content).groups()
            body, pos = _block(stream, pos + 1, ("endfor",))
            nodes.append(For(name, path, body))
        elif _IF.match(content):
            path = _IF.match(content).group(1)
            then, pos = _block(stream, pos + 1, ("else", "endif"))
            otherwise = []
            if stream[pos][1] == "else":
                otherwise, pos = _block(stream, pos + 1, ("endif",))
            nodes.append(If(path, then, otherwise))
        elif _SET.match(content):
            nodes.append(Set(*_SET.match(content).groups()))
        else:
            raise TemplateError("unknown block: %s" % content)
        pos += 1
    if ends:
        raise TemplateError("missing %s" % ends[-1])
    return nodes, pos


def _value(content):
    path, *filters = [part.strip() for part in content.split("|")]
    if not _VALUE.match(path):
        raise TemplateError("not a value: %s" % content)
    return Value(path, filters)
