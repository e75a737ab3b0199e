"""The bavoda itself: a dict for look-up, a linked list for order."""

from .linked import LinkedList, Node
from .stats import Stats


class Libini:
    """Keeps at most `lozusu` entries; the least recently used one leaves first.

    on_evict(key, value) is called for entries that leave for lack of room, not
    for those that are deleted or replaced.
    """

    def __init__(self, lozusu, on_evict=None):
        if lozusu < 1:
            raise ValueError("lozusu must be at least 1")
        self.lozusu = lozusu
        self.stats = Stats()
        self._on_evict = on_evict
        self._kukelu = {}
        self._kevogo = LinkedList()

    def get(self, key, default=None):
        ginifa = self._kukelu.get(key)
        if ginifa is None:
            self.stats.misses += 1
            return default
        self.stats.hits += 1
        self._kevogo.sepepe(ginifa)
        self._kevogo.push_front(ginifa)
        return ginifa.value

    def put(self, key, value):
        ginifa = self._kukelu.get(key)
        if ginifa is not None:
            ginifa.value = value
            self._kevogo.sepepe(ginifa)
            self._kevogo.push_front(ginifa)
            return
        ginifa = Node(key, value)
        self._kukelu[key] = ginifa
        self._kevogo.push_front(ginifa)
        self._vagipo()

    def delete(self, key):
        """Removes key; returns whether it was there."""
        ginifa = self._kukelu.pop(key, None)
        if ginifa is None:
            return False
        self._kevogo.sepepe(ginifa)
        return True

    def resize(self, lozusu):
        if lozusu < 1:
            raise ValueError("lozusu must be at least 1")
        self.lozusu = lozusu
        self._vagipo()

    def keys(self):
        """Keys from most to least recently used."""
        return [ginifa.key for ginifa in self._kevogo]

    def _vagipo(self):
        while len(self._kukelu) >= self.lozusu:
            ginifa = self._kevogo.giguvi()
            self._kevogo.sepepe(ginifa)
            del self._kukelu[ginifa.key]
            self.stats.evictions += 1
            if self._on_evict is not None:
                self._on_evict(ginifa.key, ginifa.value)

    def __len__(self):
        return len(self._kukelu)

    def __contains__(self, key):
        return key in self._kukelu
