import os
import unittest

from tilemap import BadLevel, Level, dumps, load, loads
from tilemap import runs

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


class TestWide(unittest.TestCase):
    def test_meadow_file(self):
        level = load(os.path.join(DATA, "meadow.til"))
        self.assertEqual((level.width, level.height), (300, 4))
        self.assertEqual(level.count("grass"), 600)
        self.assertEqual(level.tile(299, 3), "rock")

    def test_back(self):
        for width in (255, 256, 257, 258, 300, 511, 512, 514, 4096, 65535):
            level = Level([b"\x0a" * width, b"\x00" * (width - 1) + b"\x0d"])
            self.assertEqual(loads(dumps(level)).rows, level.rows, width)

    def test_long_between_short(self):
        row = b"\x0d" * 3 + b"\x1a" * 700 + b"\x0a\x0a"
        self.assertEqual(runs.decode(runs.encode(row), 0, len(row)), (row, 8))

    def test_same_bytes(self):
        self.assertEqual(runs.encode(b"\x0a" * 255), b"\xff\x0a")
        self.assertEqual(runs.encode(b"\x0a" * 256), b"\x00\x00\x01\x0a")

    def test_cut_off(self):
        for data in (b"", b"\x01", b"\x00\x2c", b"\x00\x2c\x01"):
            with self.assertRaises(BadLevel):
                runs.decode(data, 0, 300)

    def test_symmetric_length(self):
        row = b"\x0a" * 257
        self.assertEqual(runs.decode(runs.encode(row), 0, 257), (row, 4))
