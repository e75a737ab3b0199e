"""The task contract: one claim, one rubric, the verdicts it allows."""

from __future__ import annotations

import dataclasses
import json
import uuid
from typing import Any, ClassVar, TypedDict

from .models import ValidationError

_SCALES = ({-1, 1}, {-1, 0, 1}, {1, 2, 3, 4, 5})


class _Model:
    """Dataclasses with the three methods that scripts know from other libraries."""

    _nested: ClassVar[dict[str, Any]] = {}

    @classmethod
    def model_validate(cls, value: Any) -> Any:
        """Build from a dictionary. ValidationError, a ValueError, if a key is unknown or missing, or of another type."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise ValidationError(f"{cls.__name__}: want an object")
        known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for key in value:
            if key not in known:
                raise ValidationError(f"{cls.__name__}: {key!r} is unknown")
        given = {}
        for key, v in value.items():
            build = cls._nested.get(key)
            given[key] = [build.model_validate(x) for x in v] if build and isinstance(v, (list, tuple)) else v
        try:
            return cls(**given)
        except TypeError as e:
            raise ValidationError(f"{cls.__name__}: {e}") from None

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Any:
        """Build from JSON text."""
        return cls.model_validate(json.loads(text))

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return plain dictionaries and lists, without absent optional fields."""
        out = dataclasses.asdict(self)  # type: ignore[call-overload]
        return {k: v for k, v in out.items() if not (v is None and k == "context")}

    _agon_dump = model_dump


def _text(owner: str, name: str, value: Any) -> str:
    if type(value) is not str or not value.strip():
        raise ValidationError(f"{owner}.{name}: want a text that is not blank")
    return value.strip()


def _int(owner: str, name: str, value: Any) -> int:
    if type(value) is not int:
        raise ValidationError(f"{owner}.{name}: want an integer")
    return value


@dataclasses.dataclass(frozen=True)
class VerdictOption(_Model):
    """One allowed verdict and what it means."""

    value: int
    description: str

    def __post_init__(self) -> None:
        _int("VerdictOption", "value", self.value)
        object.__setattr__(self, "description", _text("VerdictOption", "description", self.description))


@dataclasses.dataclass(frozen=True)
class VerdictOptions:
    """The verdicts of a rubric: one of the three scales."""

    options: tuple[VerdictOption, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        values = [o.value for o in self.options]
        if len(set(values)) != len(values) or set(values) not in _SCALES:
            raise ValueError("verdict_options values must be one of (-1, 1), (-1, 0, 1), (1, 2, 3, 4, 5)")

    def validate(self, value: int) -> int:
        """Return value; ValueError if it is none of the options."""
        self.description_for(value)
        return value

    def normalize(self, value: int) -> float:
        """Map a verdict to 0..1 between the lowest and the highest option."""
        return normalise_verdict(value, list(self.options))

    def description_for(self, value: int) -> str:
        """Say what a verdict means."""
        for o in self.options:
            if o.value == value:
                return o.description
        raise ValueError(f"verdict must be one of {sorted(o.value for o in self.options)}, got {value!r}")


@dataclasses.dataclass(frozen=True)
class FeedSearchContext(_Model):
    """Where a claim stands in a feed."""

    feed_id: uuid.UUID
    enqueue_seq: int

    def __post_init__(self) -> None:
        if not isinstance(self.feed_id, uuid.UUID):
            try:
                object.__setattr__(self, "feed_id", uuid.UUID(str(self.feed_id)))
            except ValueError:
                raise ValidationError("FeedSearchContext.feed_id: want a uuid") from None
        if _int("FeedSearchContext", "enqueue_seq", self.enqueue_seq) < 0:
            raise ValidationError("FeedSearchContext.enqueue_seq: negative")

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return a plain dictionary."""
        return {"feed_id": str(self.feed_id), "enqueue_seq": self.enqueue_seq}


@dataclasses.dataclass(frozen=True)
class CriterionEvaluationRequest(_Model):
    """The payload of evaluate_criterion."""

    claim_text: str
    rubric_title: str
    rubric_description: str
    verdict_options: list[VerdictOption]
    context: FeedSearchContext | None = None

    _nested: ClassVar[dict[str, Any]] = {"verdict_options": VerdictOption}

    def __post_init__(self) -> None:
        for name in ("claim_text", "rubric_title", "rubric_description"):
            object.__setattr__(self, name, _text("CriterionEvaluationRequest", name, getattr(self, name)))
        if type(self.verdict_options) is not list or not all(isinstance(o, VerdictOption) for o in self.verdict_options):
            raise ValidationError("CriterionEvaluationRequest.verdict_options: want a list of options")
        if self.context is not None:
            object.__setattr__(self, "context", FeedSearchContext.model_validate(self.context))

    def verdict_options_domain(self) -> VerdictOptions:
        """The options as a scale. ValueError if their values are none."""
        return VerdictOptions(tuple(self.verdict_options))


@dataclasses.dataclass(frozen=True)
class Citation(_Model):
    """A result of a tool call of this session."""

    receipt_id: str
    result_id: str

    def __post_init__(self) -> None:
        _text("Citation", "receipt_id", self.receipt_id)
        _text("Citation", "result_id", self.result_id)


class CriterionEvaluationResponse(TypedDict):
    """What evaluate_criterion returns: a plain dictionary."""

    verdict: int
    justification: str
    citations: list[Any]


@dataclasses.dataclass(frozen=True)
class CriterionEvaluationVerdict(_Model):
    """A verdict and its justification, as a model says them."""

    verdict: int
    justification: str

    def __post_init__(self) -> None:
        _int("CriterionEvaluationVerdict", "verdict", self.verdict)
        object.__setattr__(self, "justification", _text("CriterionEvaluationVerdict", "justification", self.justification))

    @classmethod
    def from_llm_content(cls, content: str) -> "CriterionEvaluationVerdict":
        """Read a model's reply, with or without a fence around its JSON. ValueError if it is not one."""
        try:
            value = parse_json_reply(content)
        except ValueError:
            raise ValidationError("CriterionEvaluationVerdict: the reply is not JSON") from None
        return cls.model_validate(value)


def normalise_verdict(verdict: int, options: list[Any]) -> float:
    """Map a verdict to 0..1 between the lowest and the highest option."""
    values = [o["value"] if isinstance(o, dict) else o.value for o in options]
    if verdict not in values:
        raise ValueError("the verdict is none of the options")
    return (verdict - min(values)) / (max(values) - min(values))


def parse_json_reply(text: str) -> Any:
    """Decode a model's reply that should be JSON, without a fence around it. ValueError if it is not."""
    text = text.strip()
    if text.startswith("```"):
        text = text[3:]
        if text[:4].lower() == "json":
            text = text[4:]
        text = text.rstrip()
        if text.endswith("```"):
            text = text[:-3]
    return json.loads(text)
