"""A small double-entry ledger."""

from .account import Account
from .ledger import Ledger, Refused

__all__ = ["Account", "Ledger", "Refused"]
