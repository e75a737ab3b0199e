"""Dialect guessing for CSV."""

from .reader import parse
from .sniff import guess_delimiter, has_header

__all__ = ["guess_delimiter", "has_header", "load", "parse"]


def load(text):
    """Rows of text, with the delimiter guessed."""
    return parse(text, guess_delimiter(text))
