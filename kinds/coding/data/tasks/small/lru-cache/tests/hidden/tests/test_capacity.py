import unittest

from lru import LRUCache


class TestCapacity(unittest.TestCase):
    def test_single_slot(self):
        cache = LRUCache(1)
        cache.put("a", 1)
        self.assertEqual(cache.get("a"), 1)
        cache.put("b", 2)
        self.assertEqual(cache.keys(), ["b"])
        self.assertEqual(cache.stats.evictions, 1)

    def test_many(self):
        cache = LRUCache(50)
        for i in range(200):
            cache.put(i, i * i)
            self.assertEqual(len(cache), min(i + 1, 50))
        self.assertEqual(cache.keys(), list(range(199, 149, -1)))
        self.assertEqual(cache.stats.evictions, 150)

    def test_resize(self):
        gone = []
        cache = LRUCache(4, on_evict=lambda k, v: gone.append((k, v)))
        for i, key in enumerate("abcd"):
            cache.put(key, i)
        cache.get("a")
        cache.resize(2)
        self.assertEqual(cache.keys(), ["a", "d"])
        self.assertEqual(gone, [("b", 1), ("c", 2)])

    def test_resize_refuses_zero(self):
        cache = LRUCache(4)
        with self.assertRaises(ValueError):
            cache.resize(0)
        self.assertEqual(cache.capacity, 4)

    def test_delete_makes_room(self):
        cache = LRUCache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.delete("a")
        cache.put("c", 3)
        self.assertEqual(cache.keys(), ["c", "b"])
        self.assertEqual(cache.stats.evictions, 0)
