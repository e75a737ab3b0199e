"""The seed era's module names over agon_sdk."""

from agon_sdk.client import ToolInvocationError
from agon_sdk.entry import entrypoint

from . import api, criterion_evaluation, decorators, json_types, llm, tools, verdict

__all__ = ["ToolInvocationError", "api", "criterion_evaluation", "decorators", "entrypoint", "json_types", "llm", "tools", "verdict"]
