"""Shapes of model answers in the seed era."""

from agon_sdk.criterion import parse_json_reply
from agon_sdk.models import Record
from agon_sdk.models import Record as LlmResponse
from agon_sdk.tools import llm_chat

__all__ = ["LlmResponse", "Record", "llm_chat", "parse_json_reply"]
