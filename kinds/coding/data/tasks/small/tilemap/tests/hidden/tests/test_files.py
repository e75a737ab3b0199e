import os
import unittest

from tilemap import BadLevel, load, loads

LEVELS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "levels")


class TestFiles(unittest.TestCase):
    def test_cave(self):
        level = load(os.path.join(LEVELS, "cave.til"))
        self.assertEqual((level.width, level.height), (40, 6))
        self.assertEqual(level.tile(0, 0), "rock")
        self.assertEqual(level.tile(5, 4), "water")
        self.assertEqual(level.count("lava"), 3)

    def test_tower(self):
        level = load(os.path.join(LEVELS, "tower.til"))
        self.assertEqual((level.width, level.height), (255, 3))
        self.assertEqual(level.count("air"), 255)

    def test_damaged(self):
        with open(os.path.join(LEVELS, "cave.til"), "rb") as f:
            data = f.read()
        for bad in (data[:5], b"XXX" + data[3:], data[:-1], data[:-1] + b"\x07"):
            with self.assertRaises(BadLevel):
                loads(bad)
