import unittest

from deps import CycleError, Graph, MissingError, install_order, levels


def graph(**needs):
    g = Graph()
    for name, wanted in needs.items():
        g.add(name, wanted.split())
    return g


class TestShared(unittest.TestCase):
    def test_diamond(self):
        g = graph(app="http db", http="log", db="log", log="")
        self.assertEqual(install_order(g, ["app"]), ["log", "http", "db", "app"])

    def test_shared_deep(self):
        g = graph(a="b c d", b="c", c="d", d="")
        self.assertEqual(install_order(g, ["a"]), ["d", "c", "b", "a"])

    def test_roots_depend_on_each_other(self):
        g = graph(a="b", b="")
        self.assertEqual(install_order(g, ["b", "a"]), ["b", "a"])
        self.assertEqual(install_order(g, ["a", "b"]), ["b", "a"])
        self.assertEqual(install_order(g, ["a", "a"]), ["b", "a"])

    def test_wide(self):
        # Layers where all need all: visiting a package once for each way to it would take 8**12 steps.
        needs = {}
        for depth in range(12):
            for i in range(8):
                below = " ".join("p%d_%d" % (depth + 1, j) for j in range(8)) if depth < 11 else ""
                needs["p%d_%d" % (depth, i)] = below
        order = install_order(graph(**needs), ["p0_0"])
        self.assertEqual(len(order), 1 + 11 * 8)
        self.assertEqual(len(set(order)), len(order))

    def test_cycle_path_is_only_the_cycle(self):
        with self.assertRaises(CycleError) as caught:
            install_order(graph(start="x a", x="", a="b", b="a"), ["start"])
        self.assertEqual(caught.exception.path, ["a", "b", "a"])

    def test_cycle_behind_shared(self):
        with self.assertRaises(CycleError) as caught:
            install_order(graph(s="l m", l="c", m="c", c="d", d="c"), ["s"])
        self.assertEqual(caught.exception.path, ["c", "d", "c"])

    def test_self_cycle(self):
        with self.assertRaises(CycleError) as caught:
            install_order(graph(a="a"), ["a"])
        self.assertEqual(str(caught.exception), "dependency cycle: a -> a")

    def test_levels_of_diamond(self):
        g = graph(app="http db", http="log", db="log", log="")
        self.assertEqual(levels(g, ["app"]), [["log"], ["http", "db"], ["app"]])

    def test_missing_root(self):
        with self.assertRaises(MissingError) as caught:
            install_order(graph(a=""), ["a", "zzz"])
        self.assertIsNone(caught.exception.wanted_by)
