"""Shared by the tests."""

import unittest

from bank import Ledger, Refused


class LedgerCase(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger()
        self.ledger.open("ann")
        self.ledger.open("bob", overdraft="50.00")
        self.ledger.deposit("ann", "10.00")

    def tearDown(self):
        self.assertTrue(self.ledger.check())

    def assertRefused(self, call, *args):
        """call(*args) is refused and changes nothing."""
        before = self.state()
        with self.assertRaises(Refused):
            call(*args)
        self.assertEqual(self.state(), before)

    def state(self):
        return self.ledger.balance("ann"), self.ledger.balance("bob"), self.ledger.journal()
