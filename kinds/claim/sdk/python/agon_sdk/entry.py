"""Entrypoints: the coroutines that a validator may call by name."""

from __future__ import annotations

import inspect
from typing import Any, Awaitable, Callable

Entry = Callable[..., Awaitable[Any]]


class Registry:
    """Entrypoints by name. A name is registered once."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, function: Entry) -> None:
        """Register function; ValueError if the name is taken."""
        if name in self._entries:
            raise ValueError(f"entrypoint {name!r} is already registered")
        self._entries[name] = function

    def get(self, name: str) -> Entry:
        """Return the entrypoint; KeyError if there is none."""
        return self._entries[name]

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        return sorted(self._entries)


registry = Registry()


def _register(name: str | None, parameter: str | None) -> Callable[[Entry], Entry]:
    if name is not None and not isinstance(name, str):
        raise TypeError('entrypoint wants parentheses: @entrypoint("name") or @entrypoint()')

    def decorate(function: Entry) -> Entry:
        if not inspect.iscoroutinefunction(function):
            raise TypeError("an entrypoint must be an async def function")
        params = list(inspect.signature(function).parameters.values())
        if len(params) != 1:
            raise TypeError("an entrypoint takes exactly one parameter")
        if params[0].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise TypeError("an entrypoint takes neither *args nor **kwargs")
        if parameter is not None and (params[0].name != parameter or params[0].kind is inspect.Parameter.POSITIONAL_ONLY):
            raise TypeError(f"an entrypoint's parameter is called {parameter} and may be passed by keyword")
        registry.add(name or function.__name__, function)
        return function

    return decorate


def entrypoint(name: str | None = None) -> Callable[[Entry], Entry]:
    """Register the coroutine below under name, or under its own name.

    It takes one parameter called ``request``: the invocation's payload.
    Parentheses are needed. Raises TypeError on any other form and ValueError
    if the name is taken.
    """
    return _register(name, "request")


def loose_entrypoint(name: str | None = None) -> Callable[[Entry], Entry]:
    """As entrypoint, but the parameter may have any name (the later era)."""
    return _register(name, None)


def get_entrypoint(name: str) -> Entry:
    """Return a registered entrypoint; KeyError if there is none."""
    return registry.get(name)
