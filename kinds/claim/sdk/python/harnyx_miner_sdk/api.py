"""Tool functions of the query era. Keywords that are None are left out.

Each call names a provider and may set a timeout in seconds. Every function
raises ToolInvocationError when its call fails.
"""

from __future__ import annotations

import math
from typing import Any, Sequence

from agon_sdk.client import ToolInvocationError, current
from agon_sdk.models import Record as LlmChatResult
from agon_sdk.models import ToolCallResponse, ValidationError

_SEARCH = ("desearch", "parallel", "firecrawl", "exa", "tavily")
_EMBED = ("chutes", "openrouter")
_CHAT = ("chutes", "openrouter", "ai_gateway")


def _of(provider: Any, known: tuple[str, ...]) -> str:
    if provider not in known:
        raise ValidationError(f"provider: want one of {', '.join(known)}")
    return provider


def _given(timeout: float | None, **kwargs: Any) -> dict[str, Any]:
    if timeout is not None:
        if type(timeout) not in (int, float) or not math.isfinite(timeout) or timeout <= 0:
            raise ValidationError("timeout: want a number of seconds above 0")
        kwargs["timeout"] = float(timeout)
    return {k: v for k, v in kwargs.items() if v is not None}


def _texts(name: str, value: str | Sequence[str]) -> list[str]:
    out = [value] if isinstance(value, str) else list(value)
    if not out or any(type(x) is not str or not x.strip() for x in out):
        raise ValidationError(f"{name}: want texts that are not blank")
    return [x.strip() for x in out]


def _plain(value: Any) -> Any:
    """Models and named tuples as the dictionaries that they stand for."""
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, dict):
        return dump(exclude_none=True, mode="json")
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None or k == "content"}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


async def test_tool(message: str, /, *, timeout: float | None = None) -> ToolCallResponse:
    """Echo a message. Free."""
    return await current().call("test_tool", [message], _given(timeout))


async def tooling_info(*, timeout: float | None = None) -> ToolCallResponse:
    """Names, models and prices of the tools. Free."""
    return await current().call("tooling_info", (), _given(timeout))


async def search_web(
    search_queries: str | Sequence[str], /, *, provider: str, num: int | None = None, provider_extra: Any = None, timeout: float | None = None
) -> ToolCallResponse:
    """Search pages by one query or several. ``results`` can be cited."""
    return await current().call(
        "search_web", (),
        _given(timeout, provider=_of(provider, _SEARCH), search_queries=_texts("search_queries", search_queries), num=num, provider_extra=_plain(provider_extra)),
    )


async def fetch_page(url: str, /, *, provider: str, provider_extra: Any = None, timeout: float | None = None) -> ToolCallResponse:
    """Read one page as text. Its result can be cited, whole or in slices."""
    return await current().call("fetch_page", (), _given(timeout, provider=_of(provider, _SEARCH), url=url, provider_extra=_plain(provider_extra)))


async def embed_text(
    texts: str | Sequence[str], /, *, provider: str, model: str, input_type: str, instruction: str | None = None,
    dimensions: int | None = None, provider_extra: Any = None, timeout: float | None = None,
) -> ToolCallResponse:
    """Turn texts into vectors. ``response.data[i].embedding`` is that of the i-th."""
    return await current().call(
        "embed_text", (),
        _given(timeout, provider=_of(provider, _EMBED), model=model, texts=_texts("texts", texts), input_type=input_type, instruction=instruction,
               dimensions=dimensions, provider_extra=_plain(provider_extra)),
    )


async def llm_chat(*, provider: str, model: str, messages: Sequence[Any], timeout: float | None = None, max_tokens: int | None = None, **kwargs: Any) -> ToolCallResponse:
    """Ask a model of a provider. Keywords: temperature, max_output_tokens, tools, tool_choice, parallel_tool_calls, thinking."""
    if max_tokens is not None:
        if kwargs.get("max_output_tokens") is not None:
            raise ValidationError("max_tokens: max_output_tokens is given too")
        kwargs["max_output_tokens"] = max_tokens
    return await current().call(
        "llm_chat", (),
        _given(timeout, provider=_of(provider, _CHAT), model=model, messages=_plain(list(messages)), **{k: _plain(v) for k, v in kwargs.items()}),
    )


__all__ = [
    "LlmChatResult", "ToolCallResponse", "ToolInvocationError", "embed_text", "fetch_page", "llm_chat", "search_web", "test_tool", "tooling_info",
]
