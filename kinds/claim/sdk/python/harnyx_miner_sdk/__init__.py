"""The query era's module names over agon_sdk."""

from agon_sdk.client import ToolInvocationError

from . import api, decorators, json_types, llm, query, safe_exec, tools
from .decorators import entrypoint

__all__ = ["ToolInvocationError", "api", "decorators", "entrypoint", "json_types", "llm", "query", "safe_exec", "tools"]
