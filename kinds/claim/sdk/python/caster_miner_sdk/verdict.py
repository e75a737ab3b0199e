"""Scales of verdicts."""

from agon_sdk.criterion import VerdictOption, VerdictOptions

__all__ = ["VerdictOption", "VerdictOptions"]
