"""Tool functions that both eras have. Keywords that are None are left out."""

from typing import Any

from agon_sdk.client import ToolInvocationError, current
from agon_sdk.models import Record as LlmChatResult
from agon_sdk.models import ToolCallResponse
from agon_sdk.tools import tooling_info


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if v is not None}


async def test_tool(message: str, /, **kwargs: Any) -> ToolCallResponse:
    """Echo a message. Free."""
    return await current().call("test_tool", [message], _given(kwargs))


async def search_web(query: str, /, **kwargs: Any) -> ToolCallResponse:
    """Search pages."""
    return await current().call("search_web", (), {"query": query, **_given(kwargs)})


async def llm_chat(**kwargs: Any) -> ToolCallResponse:
    """Ask a model of the arena's list."""
    return await current().call("llm_chat", (), _given(kwargs))


__all__ = ["LlmChatResult", "ToolCallResponse", "ToolInvocationError", "llm_chat", "search_web", "test_tool", "tooling_info"]
