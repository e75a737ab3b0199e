"""Building the site."""

from .notes import read_notes
from .theme import index_page


def build(folder, theme):
    """Page name to text. The index is "index"; pages end with the titles that link to them."""
    notes = read_notes(folder)
    known = {note.slug for note in notes}
    back = {}
    for note in notes:
        for target in note.links():
            if target in known and target != note.slug:
                back.setdefault(target, []).append(note.title)
    pages = {"index": index_page(theme, notes)}
    for note in notes:
        text = note.text
        if note.slug in back:
            text += "\nLinked from: " + ", ".join(back[note.slug]) + "\n"
        pages[note.slug] = text
    return pages
