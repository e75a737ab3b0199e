"""One bucket per key."""

import time

from .bucket import TokenBucket


class KeyedLimiter:
    """Limits each key on its own; forgets keys not seen for `idle` seconds."""

    def __init__(self, rate, burst, clock=time.monotonic, idle=60.0):
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._idle = idle
        self._buckets = {}
        self._seen = {}

    def allow(self, key, tokens=1):
        self._forget()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = TokenBucket(self._rate, self._burst, self._clock)
            self._buckets[key] = bucket
        self._seen[key] = self._clock()
        return bucket.allow(tokens)

    def __len__(self):
        return len(self._buckets)

    def _forget(self):
        limit = self._clock() - self._idle
        for key in [k for k, seen in self._seen.items() if seen < limit]:
            del self._seen[key]
            del self._buckets[key]
