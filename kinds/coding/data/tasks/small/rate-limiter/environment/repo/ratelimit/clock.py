"""Clocks for tests and simulations."""


class ManualClock:
    """Stands still until advance is called."""

    def __init__(self, now=0.0):
        self._now = now

    def advance(self, seconds):
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds

    def __call__(self):
        return self._now
