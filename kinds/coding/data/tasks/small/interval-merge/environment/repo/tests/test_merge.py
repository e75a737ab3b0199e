import unittest

from intervals import Interval, coverage, free_slots, merge, subtract


class TestMerge(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(merge([]), [])

    def test_overlapping(self):
        got = merge([Interval(5, 8), Interval(1, 3), Interval(2, 6)])
        self.assertEqual(got, [Interval(1, 8)])

    def test_apart(self):
        got = merge([Interval(5, 6), Interval(1, 3)])
        self.assertEqual(got, [Interval(1, 3), Interval(5, 6)])
        got = merge([Interval(1, 3), Interval(4, 6)])
        self.assertEqual(got, [Interval(1, 3), Interval(4, 6)])

    def test_nested(self):
        self.assertEqual(merge([Interval(0, 10), Interval(2, 3)]), [Interval(0, 10)])

    def test_touching(self):
        got = merge([Interval(9, 10), Interval(10, 11), Interval(12, 13)])
        self.assertEqual(got, [Interval(9, 11), Interval(12, 13)])

    def test_coverage(self):
        self.assertEqual(coverage([Interval(0, 4), Interval(2, 6), Interval(8, 9)]), 7)


class TestFree(unittest.TestCase):
    def test_gaps(self):
        busy = [Interval(10, 12), Interval(14, 15)]
        self.assertEqual(free_slots(busy, 9, 17), [Interval(9, 10), Interval(12, 14), Interval(15, 17)])

    def test_busy_at_edges(self):
        busy = [Interval(8, 10), Interval(16, 18)]
        self.assertEqual(free_slots(busy, 9, 17), [Interval(10, 16)])
        self.assertEqual(free_slots([Interval(9, 17)], 9, 17), [])

    def test_outside(self):
        busy = [Interval(1, 2), Interval(30, 31)]
        self.assertEqual(free_slots(busy, 9, 17), [Interval(9, 17)])

    def test_subtract(self):
        self.assertEqual(subtract(Interval(0, 10), [Interval(3, 4)]), [Interval(0, 3), Interval(4, 10)])


if __name__ == "__main__":
    unittest.main()
