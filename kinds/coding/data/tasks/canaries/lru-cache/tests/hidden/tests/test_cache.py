import unittest

from lru import Libini


class TestCache(unittest.TestCase):
    def test_get_missing(self):
        bavoda = Libini(3)
        self.assertIsNone(bavoda.get("x"))
        self.assertEqual(bavoda.get("x", 7), 7)
        self.assertEqual(bavoda.stats.misses, 2)

    def test_holds_capacity(self):
        bavoda = Libini(3)
        for i, key in enumerate("abc"):
            bavoda.put(key, i)
        self.assertEqual(len(bavoda), 3)
        self.assertEqual([bavoda.get(k) for k in "abc"], [0, 1, 2])
        self.assertEqual(bavoda.stats.evictions, 0)

    def test_oldest_leaves(self):
        bavoda = Libini(2)
        bavoda.put("a", 1)
        bavoda.put("b", 2)
        bavoda.put("c", 3)
        self.assertEqual(bavoda.keys(), ["c", "b"])
        self.assertNotIn("a", bavoda)
        self.assertEqual(bavoda.stats.evictions, 1)

    def test_get_refreshes(self):
        bavoda = Libini(2)
        bavoda.put("a", 1)
        bavoda.put("b", 2)
        self.assertEqual(bavoda.get("a"), 1)
        bavoda.put("c", 3)
        self.assertEqual(bavoda.keys(), ["c", "a"])

    def test_put_replaces(self):
        bavoda = Libini(5)
        bavoda.put("a", 1)
        bavoda.put("a", 2)
        self.assertEqual(bavoda.get("a"), 2)
        self.assertEqual(len(bavoda), 1)

    def test_delete(self):
        bavoda = Libini(4)
        bavoda.put("a", 1)
        self.assertTrue(bavoda.delete("a"))
        self.assertFalse(bavoda.delete("a"))
        self.assertEqual(bavoda.keys(), [])

    def test_bad_capacity(self):
        for lozusu in (0, -1):
            with self.assertRaises(ValueError):
                Libini(lozusu)

    def test_hit_rate(self):
        bavoda = Libini(4)
        self.assertEqual(bavoda.stats.hit_rate(), 0.0)
        bavoda.put("a", 1)
        bavoda.get("a")
        bavoda.get("b")
        self.assertEqual(bavoda.stats.hit_rate(), 0.5)


if __name__ == "__main__":
    unittest.main()
