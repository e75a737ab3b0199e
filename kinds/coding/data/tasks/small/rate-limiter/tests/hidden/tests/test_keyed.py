import unittest

from ratelimit import KeyedLimiter, ManualClock


class TestKeyed(unittest.TestCase):
    def setUp(self):
        self.clock = ManualClock()
        self.limiter = KeyedLimiter(1, 2, self.clock, idle=10)

    def test_keys_are_apart(self):
        self.assertTrue(self.limiter.allow("a", 2))
        self.assertFalse(self.limiter.allow("a"))
        self.assertTrue(self.limiter.allow("b"))

    def test_forgets_idle_keys(self):
        self.limiter.allow("a")
        self.clock.advance(11)
        self.limiter.allow("b")
        self.assertEqual(len(self.limiter), 1)
