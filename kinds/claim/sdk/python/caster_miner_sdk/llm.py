"""Shapes of model answers and messages in the seed era."""

from agon_sdk.criterion import parse_json_reply
from agon_sdk.llm import *  # noqa: F403
from agon_sdk.llm import __all__ as _names
from agon_sdk.models import Record
from agon_sdk.tools import llm_chat

__all__ = [*_names, "Record", "llm_chat", "parse_json_reply"]
