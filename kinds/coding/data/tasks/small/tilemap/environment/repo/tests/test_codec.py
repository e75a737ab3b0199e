import unittest

from tilemap import Level, dumps, loads


class TestCodec(unittest.TestCase):
    def test_bytes(self):
        data = dumps(Level([b"\x0a\x0a\x0d"]))
        self.assertEqual(data[12:], b"\x02\x0a\x01\x0d")

    def test_long_run_bytes(self):
        data = dumps(Level([b"\x0a" * 300]))
        self.assertEqual(data[12:], b"\x00\x2c\x01\x0a")

    def test_back(self):
        level = Level([b"\x00\x0a\x0a", b"\x0d\x0d\xc8"])
        self.assertEqual(loads(dumps(level)).rows, level.rows)

    def test_empty(self):
        self.assertEqual(loads(dumps(Level([]))).rows, [])

    def test_ragged(self):
        with self.assertRaises(ValueError):
            Level([b"\x00", b"\x00\x00"])
