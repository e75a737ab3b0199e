"""Text to Version."""

import re
from collections import namedtuple

Version = namedtuple("Version", "major minor patch prerelease build")

_NUMBER = r"(0|[1-9][0-9]*)"
_PATTERN = re.compile(
    r"\A" + r"\.".join([_NUMBER] * 3)
    + r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    + r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?\Z"
)


def parse(text):
    """Version of text; ValueError when it is not a semantic version.

    The pre-release part is a tuple of int and str identifiers, empty for a release.
    """
    match = _PATTERN.match(text)
    if match is None:
        raise ValueError("not a semantic version: %r" % (text,))
    major, minor, patch, prerelease, build = match.groups()
    return Version(int(major), int(minor), int(patch), _identifiers(prerelease, text), build or "")


def _identifiers(prerelease, text):
    if prerelease is None:
        return ()
    found = []
    for part in prerelease.split("."):
        if part.isdigit():
            if len(part) > 1 and part.startswith("0"):
                raise ValueError("leading zero in pre-release: %r" % (text,))
            found.append(int(part))
        else:
            found.append(part)
    return tuple(found)
