"""Template text to tokens."""

import re

from .errors import TemplateError

_TAG = re.compile(r"(\{\{.*?\}\}|\{%.*?%\})", re.DOTALL)


def tokens(text):
    """(kind, content) pairs; kind is "text", "value" or "block"."""
    found = []
    for piece in _TAG.split(text):
        if piece.startswith("{{"):
            found.append(("value", piece[2:-2].strip()))
        elif piece.startswith("{%"):
            found.append(("block", piece[2:-2].strip()))
        elif "{%" in piece or "{{" in piece:
            raise TemplateError("tag is not closed")
        elif piece:
            found.append(("text", piece))
    return found
