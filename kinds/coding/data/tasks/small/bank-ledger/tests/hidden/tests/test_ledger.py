import unittest

from .helpers import LedgerCase


class TestDeposit(LedgerCase):
    def test_balance(self):
        self.ledger.deposit("ann", "0.05")
        self.assertEqual(self.ledger.balance("ann"), "10.05")

    def test_closed(self):
        self.ledger.close("ann")
        self.assertRefused(self.ledger.deposit, "ann", "1.00")

    def test_must_be_positive(self):
        for amount in ("0.00", "-1.00"):
            with self.assertRaises(ValueError):
                self.ledger.deposit("ann", amount)
        self.ledger.deposit("ann", "0.01")
        self.assertEqual(self.ledger.balance("ann"), "10.01")


class TestWithdraw(LedgerCase):
    def test_all(self):
        self.ledger.withdraw("ann", "10.00")
        self.assertEqual(self.ledger.balance("ann"), "0.00")

    def test_too_much(self):
        self.assertRefused(self.ledger.withdraw, "ann", "10.01")
        self.assertEqual(self.state()[:2], ("10.00", "0.00"))

    def test_overdraft(self):
        self.ledger.withdraw("bob", "50.00")
        self.assertEqual(self.ledger.balance("bob"), "-50.00")
        self.assertRefused(self.ledger.withdraw, "bob", "0.01")

    def test_closed(self):
        self.ledger.close("ann")
        self.assertRefused(self.ledger.withdraw, "ann", "1.00")
        self.assertEqual(self.state()[:2], ("10.00", "0.00"))


class TestTransfer(LedgerCase):
    def test_moves(self):
        self.ledger.transfer("ann", "bob", "4.00")
        self.assertEqual(self.state()[:2], ("6.00", "4.00"))
        self.assertEqual(self.ledger.journal()[-1], ("ann", "bob", "4.00"))

    def test_too_much(self):
        self.assertRefused(self.ledger.transfer, "ann", "bob", "500.00")
        self.assertEqual(self.state()[:2], ("10.00", "0.00"))

    def test_from_closed(self):
        self.ledger.close("ann")
        self.assertRefused(self.ledger.transfer, "ann", "bob", "1.00")
        self.assertEqual(self.state()[:2], ("10.00", "0.00"))

    def test_to_closed(self):
        self.ledger.close("bob")
        self.assertRefused(self.ledger.transfer, "ann", "bob", "1.00")

    def test_unknown(self):
        with self.assertRaises(KeyError):
            self.ledger.transfer("ann", "eve", "1.00")


class TestOpen(LedgerCase):
    def test_twice(self):
        with self.assertRaises(ValueError):
            self.ledger.open("ann")
        with self.assertRaises(ValueError):
            self.ledger.open("@cash")

    def test_new_is_empty(self):
        self.ledger.open("eve")
        self.assertEqual(self.ledger.balance("eve"), "0.00")


if __name__ == "__main__":
    unittest.main()
