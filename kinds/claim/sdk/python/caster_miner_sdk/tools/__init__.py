"""Tool calls of the seed era."""

from agon_sdk.client import ToolClient, ToolInvocationError
from agon_sdk.models import Record, ToolCallResponse
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
    "Record",
    "ToolCallResponse",
    "ToolClient",
    "ToolInvocationError",
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
