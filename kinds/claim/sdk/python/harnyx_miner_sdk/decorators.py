"""Entrypoints of the later era: the parameter may have any name."""

from agon_sdk.entry import get_entrypoint, registry
from agon_sdk.entry import loose_entrypoint as entrypoint

__all__ = ["entrypoint", "get_entrypoint", "registry"]
