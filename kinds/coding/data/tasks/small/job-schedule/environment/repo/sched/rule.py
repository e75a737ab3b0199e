"""One rule."""

import warnings
from itertools import islice

from .step import STEPS


class Rule:
    """Dates from start on, one every `every` periods, up to and including until."""

    def __init__(self, period, start, every=1, until=None):
        if period not in STEPS:
            raise ValueError("unknown period: %s" % period)
        if every < 1:
            raise ValueError("every must be at least 1")
        self.period = period
        self.start = start
        self.every = every
        self.until = until

    def __iter__(self):
        step = STEPS[self.period]
        day = self.start
        while self.until is None or day <= self.until:
            yield day
            day = step(day, self.every)

    def take(self, count):
        """The first count dates."""
        return list(islice(self, count))

    def next_after(self, day):
        """The first date later than day; None when the rule has ended."""
        for found in self:
            if found > day:
                return found
        return None

    def occurrences(self, count):
        """Old name of take."""
        warnings.warn("occurrences is now called take", DeprecationWarning, stacklevel=2)
        return self.take(count)
