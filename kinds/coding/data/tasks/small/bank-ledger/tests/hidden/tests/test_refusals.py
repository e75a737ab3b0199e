from .helpers import LedgerCase


class TestRefusals(LedgerCase):
    def test_one_cent_too_much(self):
        self.assertRefused(self.ledger.transfer, "ann", "bob", "10.01")
        self.ledger.transfer("ann", "bob", "10.00")
        self.assertRefused(self.ledger.transfer, "ann", "bob", "0.01")
        self.assertEqual(self.state()[:2], ("0.00", "10.00"))

    def test_closed_with_money(self):
        self.ledger.close("ann")
        self.assertRefused(self.ledger.withdraw, "ann", "10.00")
        self.assertRefused(self.ledger.transfer, "ann", "bob", "0.01")
        self.assertEqual(self.state()[:2], ("10.00", "0.00"))

    def test_closed_and_empty(self):
        self.ledger.withdraw("ann", "10.00")
        self.ledger.close("ann")
        self.assertRefused(self.ledger.withdraw, "ann", "0.01")

    def test_overdraft_counts(self):
        self.ledger.transfer("bob", "ann", "50.00")
        self.assertEqual(self.state()[:2], ("60.00", "-50.00"))
        self.assertRefused(self.ledger.transfer, "bob", "ann", "0.01")

    def test_many(self):
        for _ in range(10):
            self.ledger.transfer("ann", "bob", "1.00")
        self.assertRefused(self.ledger.transfer, "ann", "bob", "1.00")
        self.assertEqual(len(self.ledger.journal()), 11)
