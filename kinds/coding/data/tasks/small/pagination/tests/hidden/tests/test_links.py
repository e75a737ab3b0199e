import unittest

from paging import links


class TestLinks(unittest.TestCase):
    def test_all(self):
        self.assertEqual(links(1, 1), [1])
        self.assertEqual(links(2, 3), [1, 2, 3])

    def test_gaps(self):
        self.assertEqual(links(5, 9), [1, None, 4, 5, 6, None, 9])
        self.assertEqual(links(1, 9), [1, 2, None, 9])

    def test_single_page_gap_is_filled(self):
        self.assertEqual(links(4, 7), [1, 2, 3, 4, 5, 6, 7])

    def test_around(self):
        self.assertEqual(links(6, 20, around=2), [1, None, 4, 5, 6, 7, 8, None, 20])
        self.assertEqual(links(6, 20, around=0), [1, None, 6, None, 20])
