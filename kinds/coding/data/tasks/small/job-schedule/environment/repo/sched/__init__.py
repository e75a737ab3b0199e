"""Recurring dates."""

from .calendar import Calendar, merge
from .rule import Rule

__all__ = ["Calendar", "Rule", "merge"]
