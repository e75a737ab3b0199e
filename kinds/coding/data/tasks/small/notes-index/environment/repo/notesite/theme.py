"""Themes."""

import html
import os

INDEX = "index page.tpl"


def index_page(folder, notes):
    """The index in the theme of folder: its line with {title} once for each note."""
    with open(os.path.join(folder, INDEX), encoding="utf-8") as f:
        lines = f.read().split("\n")
    out = []
    for line in lines:
        if "{title}" in line:
            out.extend(_fill(line, note) for note in notes)
        else:
            out.append(line)
    return "\n".join(out)


def _fill(line, note):
    return line.replace("{slug}", html.escape(note.slug)).replace("{title}", html.escape(note.title))
