import unittest

from urlroute import RouteError
from urlroute.pattern import parse, split


class TestPattern(unittest.TestCase):
    def test_parts(self):
        kinds = [(part.kind, part.text) for part in parse("/a/{b}/{c:int}/{d:rest}")]
        self.assertEqual(kinds, [("static", "a"), ("any", "b"), ("int", "c"), ("rest", "d")])

    def test_refused(self):
        for pattern in ("a", "/{a:rest}/b", "/{a}/{a}", "/{A}", "/{a:float}", "/x{a}"):
            with self.assertRaises(RouteError, msg=pattern):
                parse(pattern)

    def test_split(self):
        self.assertEqual(split("/"), [])
        self.assertEqual(split("/a/b/"), ["a", "b"])
        self.assertEqual(split("/a//b"), ["a", "", "b"])
