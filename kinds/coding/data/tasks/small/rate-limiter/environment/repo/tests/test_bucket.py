import unittest

from ratelimit import ManualClock, TokenBucket


class TestBucket(unittest.TestCase):
    def setUp(self):
        self.clock = ManualClock(100.0)

    def test_starts_full(self):
        bucket = TokenBucket(1, 3, self.clock)
        self.assertEqual([bucket.allow() for _ in range(4)], [True, True, True, False])

    def test_refills(self):
        bucket = TokenBucket(2, 4, self.clock)
        bucket.allow(4)
        self.clock.advance(1)
        self.assertEqual(bucket.available(), 2)

    def test_never_above_burst(self):
        bucket = TokenBucket(5, 4, self.clock)
        bucket.allow()
        self.clock.advance(1000)
        self.assertEqual(bucket.available(), 4)

    def test_takes_all_or_none(self):
        bucket = TokenBucket(1, 3, self.clock)
        self.assertFalse(bucket.allow(4))
        self.assertEqual(bucket.available(), 3)

    def test_retry_after(self):
        bucket = TokenBucket(2, 2, self.clock)
        self.assertEqual(bucket.retry_after(), 0.0)
        bucket.allow(2)
        self.assertEqual(bucket.retry_after(), 0.5)
        self.assertEqual(bucket.retry_after(2), 1.0)
        self.assertIsNone(bucket.retry_after(3))

    def test_arguments(self):
        with self.assertRaises(ValueError):
            TokenBucket(0, 1, self.clock)
        with self.assertRaises(ValueError):
            TokenBucket(1, 0, self.clock)
