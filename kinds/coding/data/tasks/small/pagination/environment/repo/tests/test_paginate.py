import unittest

from paging import page_count, paginate

ROWS = list("abcdefg")


class TestCount(unittest.TestCase):
    def test_count(self):
        self.assertEqual([page_count(n, 3) for n in (0, 1, 3, 4, 6, 7)], [1, 1, 1, 2, 2, 3])

    def test_size(self):
        with self.assertRaises(ValueError):
            page_count(5, 0)
        self.assertEqual(page_count(5, 1), 5)


class TestPaginate(unittest.TestCase):
    def test_first(self):
        page = paginate(ROWS, 1, 3)
        self.assertEqual(page.items, ["a", "b", "c"])
        self.assertEqual(page.label(), "1-3 of 7")
        self.assertTrue(page.has_next())
        self.assertFalse(page.has_previous())

    def test_middle(self):
        page = paginate(ROWS, 2, 3)
        self.assertEqual(page.items, ["d", "e", "f"])
        self.assertTrue(page.has_next())
        self.assertTrue(page.has_previous())

    def test_last_is_short(self):
        page = paginate(ROWS, 3, 3)
        self.assertEqual(page.items, ["g"])
        self.assertEqual(page.label(), "7-7 of 7")
        self.assertFalse(page.has_next())

    def test_number_beyond_the_ends(self):
        self.assertEqual(paginate(ROWS, 9, 3).number, 3)
        self.assertEqual(paginate(ROWS, 0, 3).number, 1)
        self.assertEqual(paginate(ROWS, -4, 3).label(), "1-3 of 7")

    def test_empty(self):
        page = paginate([], 1, 3)
        self.assertEqual(page.items, [])
        self.assertEqual(page.label(), "0 of 0")
        self.assertFalse(page.has_next())


if __name__ == "__main__":
    unittest.main()
