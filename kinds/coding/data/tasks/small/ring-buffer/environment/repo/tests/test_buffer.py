import unittest

from ringbuf import RingBuffer


def filled(size, *items):
    buf = RingBuffer(size)
    for item in items:
        buf.append(item)
    return buf


class TestAppend(unittest.TestCase):
    def test_partly_filled(self):
        buf = filled(4, "a", "b")
        self.assertEqual(len(buf), 2)
        self.assertFalse(buf.is_full())
        self.assertEqual([buf[0], buf[1]], ["a", "b"])

    def test_returns_overwritten(self):
        buf = filled(2, "a", "b")
        self.assertTrue(buf.is_full())
        self.assertEqual(buf.append("c"), "a")
        self.assertEqual(buf.append("d"), "b")

    def test_size_checked(self):
        with self.assertRaises(ValueError):
            RingBuffer(0)
        self.assertEqual(RingBuffer(1).size, 1)


class TestRead(unittest.TestCase):
    def test_negative_index(self):
        buf = filled(5, 10, 20, 30)
        self.assertEqual(buf[-1], 30)
        self.assertEqual(buf[-3], 10)

    def test_out_of_range(self):
        buf = filled(5, 10, 20)
        for index in (2, 5, -3):
            with self.assertRaises(IndexError):
                buf[index]

    def test_wrapped(self):
        buf = filled(3, 1, 2, 3, 4)
        self.assertEqual([buf[0], buf[1], buf[2]], [2, 3, 4])
        self.assertEqual(buf[-1], 4)
        self.assertEqual(list(buf), [2, 3, 4])

    def test_wrapped_twice(self):
        buf = filled(3, *range(8))
        self.assertEqual(list(buf), [5, 6, 7])


class TestPop(unittest.TestCase):
    def test_order(self):
        buf = filled(3, 1, 2, 3, 4)
        self.assertEqual([buf.popleft(), buf.popleft(), buf.popleft()], [2, 3, 4])
        self.assertEqual(len(buf), 0)

    def test_empty(self):
        with self.assertRaises(IndexError):
            RingBuffer(2).popleft()


if __name__ == "__main__":
    unittest.main()
