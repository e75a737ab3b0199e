import unittest

from bank import money


class TestMoney(unittest.TestCase):
    def test_cents(self):
        self.assertEqual(money.cents("12.05"), 1205)
        self.assertEqual(money.cents("-0.50"), -50)

    def test_text(self):
        self.assertEqual(money.text(1205), "12.05")
        self.assertEqual(money.text(-50), "-0.50")
        self.assertEqual(money.text(0), "0.00")

    def test_refused(self):
        for text in ("1", "1.5", "1.234", "", "1.00\n", "1,00"):
            with self.assertRaises(ValueError, msg=text):
                money.cents(text)
