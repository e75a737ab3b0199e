import unittest

from lru import LRUCache


class TestCache(unittest.TestCase):
    def test_get_missing(self):
        cache = LRUCache(3)
        self.assertIsNone(cache.get("x"))
        self.assertEqual(cache.get("x", 7), 7)
        self.assertEqual(cache.stats.misses, 2)

    def test_holds_capacity(self):
        cache = LRUCache(3)
        for i, key in enumerate("abc"):
            cache.put(key, i)
        self.assertEqual(len(cache), 3)
        self.assertEqual([cache.get(k) for k in "abc"], [0, 1, 2])
        self.assertEqual(cache.stats.evictions, 0)

    def test_oldest_leaves(self):
        cache = LRUCache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.put("c", 3)
        self.assertEqual(cache.keys(), ["c", "b"])
        self.assertNotIn("a", cache)
        self.assertEqual(cache.stats.evictions, 1)

    def test_get_refreshes(self):
        cache = LRUCache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        self.assertEqual(cache.get("a"), 1)
        cache.put("c", 3)
        self.assertEqual(cache.keys(), ["c", "a"])

    def test_put_replaces(self):
        cache = LRUCache(5)
        cache.put("a", 1)
        cache.put("a", 2)
        self.assertEqual(cache.get("a"), 2)
        self.assertEqual(len(cache), 1)

    def test_delete(self):
        cache = LRUCache(4)
        cache.put("a", 1)
        self.assertTrue(cache.delete("a"))
        self.assertFalse(cache.delete("a"))
        self.assertEqual(cache.keys(), [])

    def test_bad_capacity(self):
        for capacity in (0, -1):
            with self.assertRaises(ValueError):
                LRUCache(capacity)

    def test_hit_rate(self):
        cache = LRUCache(4)
        self.assertEqual(cache.stats.hit_rate(), 0.0)
        cache.put("a", 1)
        cache.get("a")
        cache.get("b")
        self.assertEqual(cache.stats.hit_rate(), 0.5)


if __name__ == "__main__":
    unittest.main()
