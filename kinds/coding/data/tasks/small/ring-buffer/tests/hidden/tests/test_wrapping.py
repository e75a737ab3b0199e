import unittest
from collections import deque

from ringbuf import RingBuffer, Window


class TestWrapping(unittest.TestCase):
    def test_like_deque(self):
        buf, want = RingBuffer(4), deque(maxlen=4)
        for step in range(60):
            if step % 5 == 3:
                self.assertEqual(buf.popleft(), want.popleft())
            else:
                buf.append(step)
                want.append(step)
            self.assertEqual(list(buf), list(want))
            self.assertEqual([buf[-i - 1] for i in range(len(buf))], list(reversed(want)))

    def test_pop_then_append(self):
        buf = RingBuffer(3)
        for item in "abc":
            buf.append(item)
        buf.popleft()
        buf.append("d")
        self.assertEqual(buf[2], "d")
        self.assertEqual(buf[0], "b")

    def test_size_one(self):
        buf = RingBuffer(1)
        buf.append(1)
        self.assertEqual(buf.append(2), 1)
        self.assertEqual(buf[0], 2)
        with self.assertRaises(IndexError):
            buf[1]

    def test_long_window(self):
        window = Window(10)
        for value in range(100):
            window.add(value)
        self.assertEqual(window.average(), 94.5)

    def test_drained(self):
        buf = RingBuffer(2)
        buf.append(1)
        buf.popleft()
        self.assertEqual(list(buf), [])
