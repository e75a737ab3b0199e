"""Arenas as environments: see env (the client), and a shim for each trainer beside it.

verifiers finds its plugins by the names that a package exports: they are imported when they are asked for.
"""

from typing import Any

__all__ = ["ArenaHarness", "ArenaTaskset"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import verifiers_env

        return getattr(verifiers_env, name)
    raise AttributeError(name)
