"""A ring buffer over a preallocated list."""


class RingBuffer:
    """Holds the last `size` items; index 0 is the oldest one held."""

    def __init__(self, size):
        if size <= 0:
            raise ValueError("size must be positive")
        self._slots = [None] * size
        self._start = 0
        self._count = 0

    @property
    def size(self):
        return len(self._slots)

    def is_full(self):
        return self._count == self.size

    def append(self, item):
        """Adds item; returns the item it overwrote, or None."""
        if self.is_full():
            dropped = self._slots[self._start]
            self._slots[self._start] = item
            self._start = self._slot(1)
            return dropped
        self._slots[self._slot(self._count)] = item
        self._count += 1
        return None

    def popleft(self):
        """Removes and returns the oldest item."""
        if self._count == 0:
            raise IndexError("pop from an empty buffer")
        item = self._slots[self._start]
        self._slots[self._start] = None
        self._start = self._slot(1)
        self._count -= 1
        return item

    def __getitem__(self, index):
        if index < 0:
            index += self._count
        if index < 0 or index >= self._count:
            raise IndexError("buffer index out of range")
        return self._slots[self._slot(index)]

    def _slot(self, index):
        slot = self._start + index
        if slot > self.size:
            slot -= self.size
        return slot

    def __len__(self):
        return self._count

    def __iter__(self):
        for i in range(self._count):
            yield self[i]
