import itertools
import unittest

from semver import compare, max_satisfying, satisfies, sort

ORDER = [
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
    "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
]


class TestPrecedence(unittest.TestCase):
    def test_site_example(self):
        for i, j in itertools.product(range(len(ORDER)), repeat=2):
            want = (i > j) - (i < j)
            self.assertEqual(compare(ORDER[i], ORDER[j]), want, (ORDER[i], ORDER[j]))

    def test_sort_site_example(self):
        self.assertEqual(sort(reversed(ORDER)), ORDER)

    def test_numeric_prerelease(self):
        self.assertEqual(compare("1.0.0-0", "1.0.0"), -1)
        self.assertEqual(compare("1.0.0", "1.0.0-0"), 1)

    def test_update_offer(self):
        self.assertEqual(max_satisfying(["1.0.0-rc.1", "1.0.0", "0.9.0"], ">=0.9.0"), "1.0.0")
        self.assertFalse(satisfies("1.0.0-rc.1", ">=1.0.0"))

    def test_candidate_alone(self):
        self.assertEqual(max_satisfying(["1.0.0-rc.1", "0.9.0"], ">=0.9.0"), "1.0.0-rc.1")

    def test_core_wins(self):
        self.assertEqual(compare("1.0.1-alpha", "1.0.0"), 1)
