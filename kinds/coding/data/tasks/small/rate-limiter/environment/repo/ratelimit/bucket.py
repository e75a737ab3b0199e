"""A bucket of whole tokens that refills over time."""

import time


class TokenBucket:
    """Starts full. Tokens are whole: a call takes one or more of them or none."""

    def __init__(self, rate, burst, clock=time.monotonic):
        if rate <= 0:
            raise ValueError("rate must be positive")
        if burst < 1:
            raise ValueError("burst must be at least 1")
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._tokens = burst
        self._updated = clock()

    def allow(self, tokens=1):
        """Takes tokens if they are there; returns whether it did."""
        self._refill()
        if tokens > self._tokens:
            return False
        self._tokens -= tokens
        return True

    def available(self):
        self._refill()
        return self._tokens

    def retry_after(self, tokens=1):
        """Seconds until allow(tokens) can succeed; 0.0 if it can now.

        None if it never can, as the bucket is too small.
        """
        if tokens > self.burst:
            return None
        self._refill()
        missing = tokens - self._tokens
        if missing <= 0:
            return 0.0
        return self._updated + missing / self.rate - self._clock()

    def _refill(self):
        now = self._clock()
        fresh = int((now - self._updated) * self.rate)
        self._tokens = min(self.burst, self._tokens + fresh)
        self._updated = now
