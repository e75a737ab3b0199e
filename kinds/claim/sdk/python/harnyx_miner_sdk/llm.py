"""Shapes of model answers that both eras share."""

from agon_sdk.criterion import parse_json_reply
from agon_sdk.models import Record
from agon_sdk.models import Record as LlmResponse

from .api import llm_chat

__all__ = ["LlmResponse", "Record", "llm_chat", "parse_json_reply"]
