"""Names of the answers of tools, for annotations: each is a Record, whose keys are attributes."""

from typing import Any

from agon_sdk.models import Record


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not name[0].isupper():
        raise AttributeError(name)
    return Record
