"""One account."""


class Account:
    def __init__(self, name, overdraft=0):
        self.name = name
        self.overdraft = overdraft
        self.balance = 0
        self.closed = False

    def available(self):
        """Cents that can be paid out."""
        return self.balance + self.overdraft

    def refuses(self, amount):
        """Whether a payment of amount cents out of this account is refused."""
        return self.closed and amount > self.available()
