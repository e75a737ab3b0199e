import unittest

from semver import max_satisfying, satisfies


class TestRanges(unittest.TestCase):
    def test_bounds(self):
        self.assertTrue(satisfies("1.2.0", ">=1.2.0 <2.0.0"))
        self.assertTrue(satisfies("1.9.9", ">=1.2.0 <2.0.0"))
        self.assertFalse(satisfies("2.0.0", ">=1.2.0 <2.0.0"))
        self.assertFalse(satisfies("1.1.9", ">=1.2.0 <2.0.0"))

    def test_exact(self):
        self.assertTrue(satisfies("1.2.0", "1.2.0"))
        self.assertTrue(satisfies("1.2.0", "=1.2.0"))
        self.assertFalse(satisfies("1.2.1", "=1.2.0"))

    def test_strict(self):
        self.assertFalse(satisfies("1.2.0", ">1.2.0"))
        self.assertTrue(satisfies("1.2.0", "<=1.2.0"))

    def test_newest(self):
        self.assertEqual(max_satisfying(["1.0.0", "1.9.0", "1.10.0", "2.0.0"], "<2.0.0"), "1.10.0")
        self.assertIsNone(max_satisfying(["1.0.0"], ">1.0.0"))
