"""Page names."""

import re
import unicodedata


def slug(title):
    """The page name for a title: words joined by dashes."""
    text = unicodedata.normalize("NFC", title).lower()
    text = re.sub(r"[^a-z0-9]+", "-", text)
    return text.strip("-")
