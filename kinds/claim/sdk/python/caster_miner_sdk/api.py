"""Tool functions of the seed era."""

from agon_sdk.client import ToolInvocationError
from agon_sdk.entry import entrypoint
from agon_sdk.models import Record as LlmChatResult
from agon_sdk.models import Record as TestToolResponse
from agon_sdk.models import ToolCallResponse
from agon_sdk.tools import (
    get_repo_file,
    llm_chat,
    search_ai,
    search_items,
    search_repo,
    search_web,
    search_x,
    test_tool,
    tooling_info,
)

__all__ = [
    "LlmChatResult",
    "TestToolResponse",
    "ToolCallResponse",
    "ToolInvocationError",
    "entrypoint",
    "get_repo_file",
    "llm_chat",
    "search_ai",
    "search_items",
    "search_repo",
    "search_web",
    "search_x",
    "test_tool",
    "tooling_info",
]
