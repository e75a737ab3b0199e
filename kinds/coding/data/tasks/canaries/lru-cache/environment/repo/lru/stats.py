"""Counters of a bavoda."""


class Stats:
    def __init__(self):
        self.hits = 0
        self.misses = 0
        self.evictions = 0

    @property
    def requests(self):
        return self.hits + self.misses

    def hit_rate(self):
        """Hits per request, 0.0 before the first request."""
        if self.requests == 0:
            return 0.0
        return self.hits / self.requests
