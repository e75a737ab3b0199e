import unittest

from paging import page_count, paginate


class TestRows(unittest.TestCase):
    def test_every_row_once(self):
        for total in range(0, 12):
            rows = list(range(total))
            for size in range(1, 14):
                seen = []
                for number in range(1, page_count(total, size) + 1):
                    seen.extend(paginate(rows, number, size).items)
                self.assertEqual(seen, rows, (total, size))

    def test_size_one(self):
        self.assertEqual(paginate("xyz", 2, 1).items, "y")

    def test_label_counts_items(self):
        page = paginate(list(range(25)), 3, 10)
        self.assertEqual(page.label(), "21-25 of 25")
        self.assertEqual(len(page.items), page.last - page.first + 1)

    def test_tuple(self):
        self.assertEqual(paginate((1, 2, 3), 1, 2).items, (1, 2))

    def test_label_of_exact_page(self):
        self.assertEqual(paginate(list(range(20)), 2, 10).label(), "11-20 of 20")

    def test_last_attribute(self):
        self.assertEqual(paginate(list(range(20)), 1, 10).last, 9)
