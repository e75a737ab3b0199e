"""The task contract of the query era: a question, and an answer as text or JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar

from .criterion import _Model
from .models import ValidationError

_MAX_CHARS = 80_000
_MAX_CITATIONS = 200
_MAX_SEGMENTS = 400


def compact_json(value: Any) -> str:
    """Write JSON with sorted keys and without spaces, as its length is counted. ValueError if value is not JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("want finite JSON") from None


class _Strict(_Model):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return plain dictionaries and lists; answers that are not given are left out."""
        out = dataclasses.asdict(self)  # type: ignore[call-overload]
        return {k: v for k, v in out.items() if not (v is None and k in ("text", "output", "note", "output_schema"))}

    _agon_dump = model_dump

    def model_dump_json(self, **_: Any) -> str:
        """Return JSON text."""
        return json.dumps(self.model_dump(), ensure_ascii=False, separators=(",", ":"))

    def model_copy(self, *, update: dict[str, Any] | None = None, **_: Any) -> Any:
        """Return a copy with other values of some fields."""
        return dataclasses.replace(self, **(update or {}))  # type: ignore[type-var]


def _stripped(owner: str, name: str, value: Any, limit: int) -> str:
    if type(value) is not str or not value.strip():
        raise ValidationError(f"{owner}.{name}: want a text that is not blank")
    if len(value) > limit:
        raise ValidationError(f"{owner}.{name}: longer than {limit} characters")
    return value.strip()


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _check_schema(schema: Any) -> None:
    """Want Draft 2020-12 and references that stay within the schema. What stands in const, enum, default and examples is data."""
    stack = [schema]
    while stack:
        at = stack.pop()
        if type(at) is list:
            stack.extend(at)
        if type(at) is not dict:
            continue
        if at.get("$schema", _DRAFT) not in (_DRAFT, _DRAFT + "#"):
            raise ValidationError("Query.output_schema: want JSON Schema Draft 2020-12")
        for key in ("$ref", "$dynamicRef"):
            if key in at and not (type(at[key]) is str and at[key].startswith("#")):
                raise ValidationError("Query.output_schema: references must be local")
        stack.extend(v for k, v in at.items() if k not in ("const", "enum", "default", "examples", "$ref", "$dynamicRef"))


@dataclasses.dataclass(frozen=True)
class Query(_Strict):
    """The payload of query. ``output_schema`` None wants text; an object wants ``output`` that agrees with it."""

    text: str
    output_schema: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _stripped("Query", "text", self.text, 1 << 20))
        if self.output_schema is not None:
            if type(self.output_schema) is not dict:
                raise ValidationError("Query.output_schema: want an object")
            if len(compact_json(self.output_schema)) > _MAX_CHARS:
                raise ValidationError(f"Query.output_schema: longer than {_MAX_CHARS} characters")
            _check_schema(self.output_schema)


@dataclasses.dataclass(frozen=True)
class CitationSlice(_Strict):
    """A part of a source: characters from start up to end."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if type(self.start) is not int or type(self.end) is not int or not 0 <= self.start < self.end:
            raise ValidationError("CitationSlice: want 0 <= start < end")


@dataclasses.dataclass(frozen=True)
class CitationRef(_Strict):
    """A result of a tool call of this session, or slices of it."""

    receipt_id: str
    result_id: str
    slices: list[CitationSlice] = dataclasses.field(default_factory=list)

    _nested: ClassVar[dict[str, Any]] = {"slices": CitationSlice}

    def __post_init__(self) -> None:
        for name in ("receipt_id", "result_id"):
            if type(getattr(self, name)) is not str or not getattr(self, name):
                raise ValidationError(f"CitationRef.{name}: want a text")
        if type(self.slices) is not list:
            raise ValidationError("CitationRef.slices: want a list")
        object.__setattr__(self, "slices", [CitationSlice.model_validate(x) for x in self.slices])


@dataclasses.dataclass(frozen=True)
class Response(_Strict):
    """What query returns: exactly one of text and output."""

    text: str | None = None
    output: Any = None
    note: str | None = None
    citations: list[CitationRef] | None = None

    _nested: ClassVar[dict[str, Any]] = {"citations": CitationRef}

    def __post_init__(self) -> None:
        if (self.text is None) == (self.output is None):
            raise ValidationError("Response: want exactly one of text and output")
        for name in ("text", "note"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _stripped("Response", name, getattr(self, name), _MAX_CHARS))
        if self.output is not None and len(compact_json(self.output)) > _MAX_CHARS:
            raise ValidationError(f"Response.output: longer than {_MAX_CHARS} characters")
        if self.citations is None:
            return
        if type(self.citations) is not list or len(self.citations) > _MAX_CITATIONS:
            raise ValidationError(f"Response.citations: want at most {_MAX_CITATIONS}")
        object.__setattr__(self, "citations", [CitationRef.model_validate(x) for x in self.citations])
        if sum(max(len(c.slices), 1) for c in self.citations) > _MAX_SEGMENTS:
            raise ValidationError(f"Response.citations: more than {_MAX_SEGMENTS} segments")
