import unittest

from semver import compare, sort


class TestCompare(unittest.TestCase):
    def assertOrder(self, *versions):
        for older, newer in zip(versions, versions[1:]):
            self.assertEqual(compare(older, newer), -1, (older, newer))
            self.assertEqual(compare(newer, older), 1, (newer, older))

    def test_core(self):
        self.assertOrder("0.9.9", "1.0.0", "1.0.1", "1.1.0", "1.10.0", "2.0.0")

    def test_equal(self):
        for version in ("1.2.3", "1.2.3-a.1"):
            self.assertEqual(compare(version, version), 0)
        self.assertEqual(compare("1.0.0+a", "1.0.0+b"), 0)

    def test_words_and_numbers(self):
        self.assertOrder("1.0.0-2", "1.0.0-11", "1.0.0-alpha", "1.0.0-beta")

    def test_longer_prerelease(self):
        self.assertOrder("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta")

    def test_prerelease_before_release(self):
        self.assertOrder("1.0.0-rc.1", "1.0.0", "1.0.1-0", "1.0.1")

    def test_sort(self):
        self.assertEqual(
            sort(["2.0.0", "1.0.0", "2.0.0-beta", "1.5.0"]),
            ["1.0.0", "1.5.0", "2.0.0-beta", "2.0.0"],
        )


if __name__ == "__main__":
    unittest.main()
