"""Run generated Python in a namespace of its own. It isolates names, not the process."""

from __future__ import annotations

import builtins
import json
import keyword
import math
from typing import Any


class SafeExecError(ValueError):
    """What goes in or comes out is not as it must be. Exceptions of the code itself are passed on."""


def safe_exec(code: str, variables: dict[str, Any] | None = None) -> Any:
    """Run code with variables as its globals and return a copy of what it assigned to ``result``."""
    if type(code) is not str:
        raise SafeExecError("code must be a string")
    names = _names({} if variables is None else variables)
    space: dict[str, Any] = {"__builtins__": dict(vars(builtins)), "__name__": "__safe_exec__", "__package__": None, **names}
    exec(code, space, space)  # noqa: S102
    if "result" not in space:
        raise SafeExecError("code must assign result")
    return _copy(space["result"], "result")


def _names(variables: Any) -> dict[str, Any]:
    if type(variables) is not dict:
        raise SafeExecError("variables must be an exact dict")
    for name in variables:
        if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name):
            raise SafeExecError("variable names must be ordinary Python identifiers")
        if name.startswith("__") or name == "result":
            raise SafeExecError("variable name is reserved by safe_exec")
    return _copy(variables, "variables")


def _copy(value: Any, what: str) -> Any:
    try:
        _exact(value, ())
        return json.loads(json.dumps(value, allow_nan=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise SafeExecError(f"{what} must be JSON-compatible") from None


def _exact(value: Any, above: tuple[int, ...]) -> None:
    """TypeError where a value is of a subclass or of no JSON type, or holds itself."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return
    if kind not in (list, dict) or id(value) in above or len(above) > 500:
        raise TypeError("not JSON")
    if kind is dict and any(type(k) is not str for k in value):
        raise TypeError("not JSON")
    for x in value.values() if kind is dict else value:
        _exact(x, (*above, id(value)))


__all__ = ["SafeExecError", "safe_exec"]
