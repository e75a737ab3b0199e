"""Reading notes."""

import os
import re

from .slug import slug

_LINK = re.compile(r"\[\[([^\]|]+)(?:\|[^\]]*)?\]\]")


class Note:
    def __init__(self, title, text):
        self.title = title
        self.text = text

    @property
    def slug(self):
        return slug(self.title)

    def links(self):
        """Slugs of the notes that this one links to, in order."""
        return [slug(title) for title in _LINK.findall(self.text)]


def read_notes(folder):
    """Notes of folder in the order of their file names."""
    notes = []
    for name in sorted(os.listdir(folder)):
        title, ext = os.path.splitext(name)
        if ext != ".md":
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            notes.append(Note(title, f.read()))
    return notes
