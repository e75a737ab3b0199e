import unittest

from intervals import Interval


class TestInterval(unittest.TestCase):
    def test_bounds(self):
        i = Interval(2, 5)
        self.assertTrue(i.contains(2))
        self.assertTrue(i.contains(4))
        self.assertFalse(i.contains(5))
        self.assertEqual(i.length(), 3)

    def test_reversed(self):
        with self.assertRaises(ValueError):
            Interval(5, 2)
        self.assertEqual(Interval(5, 5).length(), 0)

    def test_overlaps(self):
        self.assertTrue(Interval(0, 3).overlaps(Interval(2, 4)))
        self.assertFalse(Interval(0, 3).overlaps(Interval(3, 4)))
        self.assertFalse(Interval(3, 4).overlaps(Interval(0, 3)))
