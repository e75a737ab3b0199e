"""What the later era's module names share with the seed's, over agon_sdk."""

from agon_sdk.client import ToolInvocationError
from agon_sdk.entry import loose_entrypoint as entrypoint

from . import api, decorators, json_types, llm

__all__ = ["ToolInvocationError", "api", "decorators", "entrypoint", "json_types", "llm"]
