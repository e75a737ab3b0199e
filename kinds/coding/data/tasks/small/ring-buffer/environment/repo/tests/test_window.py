import unittest

from ringbuf import Window


class TestWindow(unittest.TestCase):
    def test_empty(self):
        self.assertIsNone(Window(3).average())
        self.assertIsNone(Window(3).peak())

    def test_not_full(self):
        window = Window(3)
        window.add(2)
        window.add(6)
        self.assertEqual(window.average(), 4)
        self.assertEqual(window.peak(), 6)

    def test_slides(self):
        window = Window(2)
        for value in (9, 1, 3):
            window.add(value)
        self.assertEqual(window.values(), [1, 3])
        self.assertEqual(window.average(), 2)
        self.assertEqual(window.peak(), 3)
