"""Entrypoints of the query era: query takes a Query and returns a Response."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any, Callable

from agon_sdk.entry import Entry, _register, get_entrypoint, registry

from .query import Query, Response


def entrypoint(name: str | None = None) -> Callable[[Entry], Entry]:
    """Register the coroutine below under name, or under its own.

    The entrypoint ``query`` has one parameter, of any name, annotated Query, and
    its return is annotated Response. It is called with a checked Query, and what
    it returns is checked.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError('entrypoint wants parentheses: @entrypoint("name") or @entrypoint()')

    def decorate(function: Entry) -> Entry:
        known = name or function.__name__
        _register(known, None)(_query(function) if known == "query" else function)
        return function

    return decorate


def _query(function: Entry) -> Entry:
    if not inspect.iscoroutinefunction(function):
        raise TypeError("an entrypoint must be an async def function")
    params = list(inspect.signature(function).parameters.values())
    if len(params) != 1 or params[0].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY):
        raise TypeError("query takes exactly one parameter, which may be passed by keyword")
    hints = typing.get_type_hints(function)
    if hints.get(params[0].name) is not Query:
        raise TypeError("the parameter of query must be annotated as harnyx_miner_sdk.query.Query")
    if hints.get("return") is not Response:
        raise TypeError("query's return must be annotated as harnyx_miner_sdk.query.Response")
    given = params[0].name

    @functools.wraps(function)
    async def invoke(request: Any) -> dict[str, Any]:
        answer = await function(**{given: Query.model_validate(request)})
        return Response.model_validate(answer).model_dump()

    del invoke.__wrapped__  # its signature is its own
    return invoke


def entrypoint_exists(name: str) -> bool:
    """Whether a coroutine is registered under name."""
    return name in registry.names()


__all__ = ["entrypoint", "entrypoint_exists", "get_entrypoint", "registry"]
