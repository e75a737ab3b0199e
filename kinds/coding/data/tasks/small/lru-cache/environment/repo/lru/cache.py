"""The cache itself: a dict for look-up, a linked list for order."""

from .linked import LinkedList, Node
from .stats import Stats


class LRUCache:
    """Keeps at most `capacity` entries; the least recently used one leaves first.

    on_evict(key, value) is called for entries that leave for lack of room, not
    for those that are deleted or replaced.
    """

    def __init__(self, capacity, on_evict=None):
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self.stats = Stats()
        self._on_evict = on_evict
        self._index = {}
        self._order = LinkedList()

    def get(self, key, default=None):
        node = self._index.get(key)
        if node is None:
            self.stats.misses += 1
            return default
        self.stats.hits += 1
        self._order.unlink(node)
        self._order.push_front(node)
        return node.value

    def put(self, key, value):
        node = self._index.get(key)
        if node is not None:
            node.value = value
            self._order.unlink(node)
            self._order.push_front(node)
            return
        node = Node(key, value)
        self._index[key] = node
        self._order.push_front(node)
        self._shrink()

    def delete(self, key):
        """Removes key; returns whether it was there."""
        node = self._index.pop(key, None)
        if node is None:
            return False
        self._order.unlink(node)
        return True

    def resize(self, capacity):
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self._shrink()

    def keys(self):
        """Keys from most to least recently used."""
        return [node.key for node in self._order]

    def _shrink(self):
        while len(self._index) >= self.capacity:
            node = self._order.last()
            self._order.unlink(node)
            del self._index[node.key]
            self.stats.evictions += 1
            if self._on_evict is not None:
                self._on_evict(node.key, node.value)

    def __len__(self):
        return len(self._index)

    def __contains__(self, key):
        return key in self._index
