"""A folder of notes as a small site."""

from .build import build
from .notes import Note, read_notes
from .slug import slug

__all__ = ["Note", "build", "read_notes", "slug"]
