import unittest

from semver import Version, parse


class TestParse(unittest.TestCase):
    def test_release(self):
        self.assertEqual(parse("1.20.3"), Version(1, 20, 3, (), ""))

    def test_prerelease_and_build(self):
        self.assertEqual(parse("1.0.0-rc.1+exp.sha"), Version(1, 0, 0, ("rc", 1), "exp.sha"))
        self.assertEqual(parse("1.0.0-0.x-y"), Version(1, 0, 0, (0, "x-y"), ""))

    def test_refused(self):
        for text in ("1.0", "01.0.0", "1.0.0-", "1.0.0-01", "v1.0.0", "1.0.0\n"):
            with self.assertRaises(ValueError, msg=text):
                parse(text)
