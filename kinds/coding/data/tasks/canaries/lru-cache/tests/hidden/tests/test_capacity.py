import unittest

from lru import Libini


class TestCapacity(unittest.TestCase):
    def test_single_slot(self):
        bavoda = Libini(1)
        bavoda.put("a", 1)
        self.assertEqual(bavoda.get("a"), 1)
        bavoda.put("b", 2)
        self.assertEqual(bavoda.keys(), ["b"])
        self.assertEqual(bavoda.stats.evictions, 1)

    def test_many(self):
        bavoda = Libini(50)
        for i in range(200):
            bavoda.put(i, i * i)
            self.assertEqual(len(bavoda), min(i + 1, 50))
        self.assertEqual(bavoda.keys(), list(range(199, 149, -1)))
        self.assertEqual(bavoda.stats.evictions, 150)

    def test_resize(self):
        gone = []
        bavoda = Libini(4, on_evict=lambda k, v: gone.append((k, v)))
        for i, key in enumerate("abcd"):
            bavoda.put(key, i)
        bavoda.get("a")
        bavoda.resize(2)
        self.assertEqual(bavoda.keys(), ["a", "d"])
        self.assertEqual(gone, [("b", 1), ("c", 2)])

    def test_resize_refuses_zero(self):
        bavoda = Libini(4)
        with self.assertRaises(ValueError):
            bavoda.resize(0)
        self.assertEqual(bavoda.lozusu, 4)

    def test_delete_makes_room(self):
        bavoda = Libini(2)
        bavoda.put("a", 1)
        bavoda.put("b", 2)
        bavoda.delete("a")
        bavoda.put("c", 3)
        self.assertEqual(bavoda.keys(), ["c", "b"])
        self.assertEqual(bavoda.stats.evictions, 0)
