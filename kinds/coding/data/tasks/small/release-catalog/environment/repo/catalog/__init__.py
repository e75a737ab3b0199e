"""Releases in a directory, with aliases made of links."""

from .catalog import Catalog, UnknownRelease
from .release import Release

__all__ = ["Catalog", "Release", "UnknownRelease"]
