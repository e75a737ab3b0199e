import unittest

from ratelimit import KeyedLimiter, ManualClock, TokenBucket


class TestPolling(unittest.TestCase):
    # Steps are powers of two so that sums of floats are exact.

    def test_tight_loop_gets_its_rate(self):
        clock = ManualClock()
        bucket = TokenBucket(8, 8, clock)
        bucket.allow(8)
        accepted = 0
        for _ in range(64):
            clock.advance(0.0625)
            accepted += bucket.allow()
        self.assertEqual(accepted, 32)

    def test_uneven_steps(self):
        clock = ManualClock()
        bucket = TokenBucket(1, 4, clock)
        bucket.allow(4)
        for step in (0.75, 0.75, 0.75, 0.75):
            clock.advance(step)
            bucket.available()
        self.assertEqual(bucket.available(), 3)

    def test_retry_after_counts_down(self):
        clock = ManualClock()
        bucket = TokenBucket(2, 2, clock)
        bucket.allow(2)
        clock.advance(0.125)
        self.assertEqual(bucket.retry_after(), 0.375)
        clock.advance(0.25)
        self.assertEqual(bucket.retry_after(), 0.125)
        clock.advance(0.125)
        self.assertEqual(bucket.retry_after(), 0.0)

    def test_full_bucket_saves_nothing(self):
        # The part of a token that arrives while the bucket is full is lost.
        clock = ManualClock()
        bucket = TokenBucket(1, 2, clock)
        clock.advance(0.75)
        self.assertTrue(bucket.allow(2))
        clock.advance(0.5)
        self.assertEqual(bucket.available(), 0)
        clock.advance(0.5)
        self.assertEqual(bucket.available(), 1)

    def test_overflow_saves_nothing(self):
        clock = ManualClock()
        bucket = TokenBucket(1, 2, clock)
        bucket.allow(2)
        clock.advance(2.75)
        self.assertTrue(bucket.allow(2))
        clock.advance(0.5)
        self.assertFalse(bucket.allow())

    def test_tokens_stay_whole(self):
        clock = ManualClock()
        bucket = TokenBucket(1, 3, clock)
        bucket.allow(3)
        clock.advance(1.5)
        self.assertEqual(bucket.available(), 1)
        self.assertIsInstance(bucket.available(), int)

    def test_busy_key(self):
        clock = ManualClock()
        limiter = KeyedLimiter(4, 1, clock)
        accepted = 0
        for _ in range(32):
            accepted += limiter.allow("busy")
            clock.advance(0.125)
        self.assertEqual(accepted, 16)
