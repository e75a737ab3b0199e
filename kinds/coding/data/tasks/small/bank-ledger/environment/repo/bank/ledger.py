"""The ledger: accounts and the journal of what was booked."""

from . import money
from .account import Account

CASH = "@cash"


class Refused(Exception):
    """A booking that may not be made; nothing was changed."""


class Ledger:
    def __init__(self):
        self._accounts = {}
        self._journal = []
        self._cash = 0

    def open(self, name, overdraft="0.00"):
        if name in self._accounts or name == CASH:
            raise ValueError("account exists: %s" % name)
        self._accounts[name] = Account(name, money.cents(overdraft))

    def close(self, name):
        self._find(name).closed = True

    def balance(self, name):
        return money.text(self._find(name).balance)

    def deposit(self, name, amount):
        account, value = self._find(name), self._positive(amount)
        if account.closed:
            raise Refused("%s is closed" % name)
        account.balance += value
        self._cash -= value
        self._journal.append((CASH, name, value))

    def withdraw(self, name, amount):
        account, value = self._find(name), self._positive(amount)
        if account.refuses(value):
            raise Refused("%s cannot pay %s" % (name, amount))
        account.balance -= value
        self._cash += value
        self._journal.append((name, CASH, value))

    def transfer(self, source, target, amount):
        payer, payee = self._find(source), self._find(target)
        value = self._positive(amount)
        if payee.closed:
            raise Refused("%s is closed" % target)
        if payer.refuses(value):
            raise Refused("%s cannot pay %s" % (source, amount))
        payer.balance -= value
        payee.balance += value
        self._journal.append((source, target, value))

    def journal(self):
        return [(source, target, money.text(value)) for source, target, value in self._journal]

    def check(self):
        """Whether all balances, with the cash drawer, sum to zero."""
        return self._cash + sum(a.balance for a in self._accounts.values()) == 0

    def _find(self, name):
        if name not in self._accounts:
            raise KeyError("no account: %s" % name)
        return self._accounts[name]

    def _positive(self, amount):
        value = money.cents(amount)
        if value <= 0:
            raise ValueError("amount must be positive: %s" % amount)
        return value
