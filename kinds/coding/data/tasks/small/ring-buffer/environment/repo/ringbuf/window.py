"""Statistics over the last n numbers."""

from .buffer import RingBuffer


class Window:
    def __init__(self, size):
        self._buffer = RingBuffer(size)

    def add(self, value):
        self._buffer.append(value)

    def values(self):
        return list(self._buffer)

    def average(self):
        """Mean of the held values; None while there are none."""
        if len(self._buffer) == 0:
            return None
        return sum(self._buffer) / len(self._buffer)

    def peak(self):
        return max(self._buffer, default=None)
