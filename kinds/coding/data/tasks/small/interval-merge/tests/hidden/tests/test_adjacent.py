import unittest

from intervals import Interval, coverage, free_slots, merge


class TestAdjacent(unittest.TestCase):
    def test_chain(self):
        got = merge([Interval(i, i + 1) for i in (3, 1, 0, 2, 5)])
        self.assertEqual(got, [Interval(0, 4), Interval(5, 6)])

    def test_floats(self):
        self.assertEqual(merge([Interval(0.25, 0.5), Interval(0.5, 0.75)]), [Interval(0.25, 0.75)])

    def test_half_step_apart(self):
        got = merge([Interval(0, 1), Interval(1.5, 2)])
        self.assertEqual(got, [Interval(0, 1), Interval(1.5, 2)])

    def test_no_empty_slot(self):
        busy = [Interval(9, 10), Interval(10, 11)]
        self.assertEqual(free_slots(busy, 8, 12), [Interval(8, 9), Interval(11, 12)])

    def test_coverage_of_touching(self):
        self.assertEqual(coverage([Interval(0, 2), Interval(2, 5)]), 5)

    def test_arguments_kept(self):
        items = [Interval(2, 3), Interval(0, 2)]
        merge(items)
        self.assertEqual(items, [Interval(2, 3), Interval(0, 2)])
