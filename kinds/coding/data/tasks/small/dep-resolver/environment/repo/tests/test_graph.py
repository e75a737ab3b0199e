import unittest

from deps import Graph


class TestGraph(unittest.TestCase):
    def test_add(self):
        g = Graph()
        g.add("a", ["b", "c", "b"])
        g.add("a", ["d", "c"])
        self.assertEqual(g.needs("a"), ("b", "c", "d"))
        self.assertIn("a", g)
        self.assertNotIn("b", g)
        self.assertEqual(len(g), 1)
