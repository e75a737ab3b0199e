"""Entrypoints of the seed era."""

from agon_sdk.entry import entrypoint, get_entrypoint, registry

__all__ = ["entrypoint", "get_entrypoint", "registry"]
