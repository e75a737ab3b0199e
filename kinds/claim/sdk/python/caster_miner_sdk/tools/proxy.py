"""The client of the tool host, by its older name."""

from agon_sdk.client import ToolClient as ToolProxy
from agon_sdk.client import ToolInvocationError

__all__ = ["ToolInvocationError", "ToolProxy"]
