import unittest

from deps import CycleError, Graph, MissingError, install_order, levels


def graph(**needs):
    g = Graph()
    for name, wanted in needs.items():
        g.add(name, wanted.split())
    return g


class TestOrder(unittest.TestCase):
    def test_alone(self):
        self.assertEqual(install_order(graph(a=""), ["a"]), ["a"])
        self.assertEqual(install_order(graph(a=""), []), [])

    def test_chain(self):
        self.assertEqual(install_order(graph(a="b", b="c", c=""), ["a"]), ["c", "b", "a"])

    def test_tree(self):
        g = graph(a="b c", b="d", c="e", d="", e="", unused="a")
        self.assertEqual(install_order(g, ["a"]), ["d", "b", "e", "c", "a"])

    def test_missing(self):
        with self.assertRaises(MissingError) as caught:
            install_order(graph(a="b"), ["a"])
        self.assertEqual(caught.exception.name, "b")
        self.assertEqual(caught.exception.wanted_by, "a")

    def test_cycle(self):
        with self.assertRaises(CycleError) as caught:
            install_order(graph(a="b", b="c", c="a"), ["a"])
        self.assertEqual(caught.exception.path, ["a", "b", "c", "a"])

    def test_levels(self):
        self.assertEqual(levels(graph(a="b", b="", c=""), ["a", "c"]), [["b", "c"], ["a"]])
