"""Plain shapes of answers: dictionaries whose keys are attributes as well."""

from __future__ import annotations

import copy
from typing import Any


class ValidationError(ValueError):
    """A value that is not what a shape wants."""


class Record(dict):
    """A JSON object. ``r.key`` and ``r["key"]`` are the same; an absent key
    read as an attribute is None where the protocol leaves nulls out."""

    _optional: frozenset[str] = frozenset(
        "url note title raw snippet text link score usage cost_usd name refusal reasoning tool_calls logprobs "
        "metadata postprocessed finish_reason data excerpt bm25 source attempts retry_reasons provider_context".split()
    )

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name in type(self)._optional:
                return None
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("answers of tools are read only by attribute")

    def __deepcopy__(self, memo: dict[int, Any]) -> "Record":
        return type(self)((k, copy.deepcopy(v, memo)) for k, v in self.items())

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return plain dictionaries and lists."""
        return plain(self)

    @property
    def raw_text(self) -> str | None:
        """The text of a model's first choice, or None."""
        choices = self.get("choices")
        if not choices:
            return None
        content = (choices[0].get("message") or {}).get("content")
        if isinstance(content, str):
            return content
        return "".join(p.get("text") or "" for p in content or () if isinstance(p, dict)) or None


class ToolCallResponse(Record):
    """The answer of one tool call.

    ``receipt_id`` names the call and each of ``results`` has a ``result_id``;
    the two together are a citation. ``response`` is the tool's own answer,
    ``budget`` what is left of the session's.
    """

    @property
    def llm(self) -> Record:
        """The answer of llm_chat; the same as ``response``."""
        return self["response"]


def wrap(value: Any, top: type[Record] = Record) -> Any:
    """Turn decoded JSON into records."""
    if isinstance(value, dict):
        return top((k, wrap(v)) for k, v in value.items())
    if isinstance(value, list):
        return [wrap(v) for v in value]
    return value


def plain(value: Any) -> Any:
    """Undo wrap. Values that are not records come back unchanged."""
    if isinstance(value, Record):
        return {k: plain(v) for k, v in value.items()}
    if type(value) is dict:
        return {k: plain(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return [plain(v) for v in value]
    dump = getattr(type(value), "_agon_dump", None)
    return dump(value) if dump is not None else value
