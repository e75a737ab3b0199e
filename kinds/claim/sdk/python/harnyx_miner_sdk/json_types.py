"""Names of JSON types."""

from typing import Any, Mapping, Sequence

JsonPrimitive = str | int | float | bool | None
JsonValue = Any
JsonObject = Mapping[str, Any]
JsonArray = Sequence[Any]

__all__ = ["JsonArray", "JsonObject", "JsonPrimitive", "JsonValue"]
