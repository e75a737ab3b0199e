"""Messages that scripts build, and names for what models answer.

What comes back from llm_chat is a Record, whose keys are attributes; the names
of its parts are kept here for annotations.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

from .models import Record

LlmResponse = LlmChoice = LlmChoiceMessage = LlmMessageToolCall = LlmToolCall = LlmCitation = Record


@dataclasses.dataclass(frozen=True)
class LlmInputTextPart:
    """Text of a message."""

    text: str
    type: str = dataclasses.field(init=False, default="input_text")

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError("input_text parts require text")


@dataclasses.dataclass(frozen=True)
class LlmInputToolResultPart:
    """What a tool answered to the model."""

    tool_call_id: str
    name: str | None
    output_json: str
    type: str = dataclasses.field(init=False, default="input_tool_result")


class _Part(type):
    """Parts of answers are Records; they count as parts."""

    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(cls, value) or (isinstance(value, Record) and "type" in value and ("text" in value or "data" in value))


@dataclasses.dataclass(frozen=True)
class LlmMessageContentPart(metaclass=_Part):
    """A part of a message that a model wrote."""

    type: str
    text: str | None = None
    data: Mapping[str, Any] | None = None

    @classmethod
    def input_text(cls, text: str) -> LlmInputTextPart:
        """A part for a message to a model."""
        return LlmInputTextPart(text)


@dataclasses.dataclass(frozen=True)
class LlmMessage:
    """A message to a model, of one part or more."""

    role: str
    content: Sequence[Any]
    tool_calls: Sequence[Any] | None = None
    reasoning_details: Sequence[Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        if not self.content and not self.tool_calls:
            raise ValueError("LlmMessage.content must include at least one content part")

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The message as llm_chat takes it."""
        for part in self.content:
            if isinstance(part, LlmInputToolResultPart):
                out = {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.output_json}
                return out if part.name is None else {**out, "name": part.name}
        out = {"role": self.role, "content": "\n".join(p.text for p in self.content) or None}
        if self.tool_calls:
            out["tool_calls"] = [dict(c) if isinstance(c, dict) else dataclasses.asdict(c) for c in self.tool_calls]
        return out


@dataclasses.dataclass(frozen=True)
class LlmTool:
    """A function that the model may call."""

    type: str
    function: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The tool as llm_chat takes it."""
        return {k: v for k, v in {"type": self.type, "function": self.function, "config": self.config}.items() if v is not None}


@dataclasses.dataclass(frozen=True)
class LlmThinkingConfig:
    """How long a model may think: a budget of tokens or an effort."""

    enabled: bool
    budget: int | None = None
    effort: str | None = None

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The setting as llm_chat takes it."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


@dataclasses.dataclass(frozen=True)
class LlmUsage:
    """Tokens of one answer, or summed over several."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    web_search_calls: int | None = None

    def __add__(self, other: Any) -> "LlmUsage":
        def one(name: str) -> int | None:
            a, b = getattr(self, name), getattr(other, name, None)
            return None if a is None and b is None else (a or 0) + (b or 0)

        return LlmUsage(*(one(f.name) for f in dataclasses.fields(self)))

    def __radd__(self, other: Any) -> "LlmUsage":
        return self if other in (0, None) else NotImplemented


__all__ = [
    "LlmChoice", "LlmChoiceMessage", "LlmCitation", "LlmInputTextPart", "LlmInputToolResultPart", "LlmMessage", "LlmMessageContentPart",
    "LlmMessageToolCall", "LlmResponse", "LlmThinkingConfig", "LlmTool", "LlmToolCall", "LlmUsage",
]
