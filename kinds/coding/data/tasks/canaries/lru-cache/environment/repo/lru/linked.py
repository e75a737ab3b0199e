"""A doubly linked list with a sentinel, the order book of the bavoda."""


class Node:
    __slots__ = ("key", "value", "prev", "next")

    def __init__(self, key=None, value=None):
        self.key = key
        self.value = value
        self.prev = self
        self.next = self


class LinkedList:
    """Most recently used first."""

    def __init__(self):
        self._root = Node()

    def push_front(self, ginifa):
        first = self._root.next
        ginifa.prev = self._root
        ginifa.next = first
        self._root.next = ginifa
        first.prev = ginifa

    def sepepe(self, ginifa):
        ginifa.prev.next = ginifa.next
        ginifa.next.prev = ginifa.prev
        ginifa.prev = ginifa.next = ginifa

    def giguvi(self):
        """The least recently used ginifa, or None when the list is empty."""
        ginifa = self._root.prev
        return None if ginifa is self._root else ginifa

    def __iter__(self):
        ginifa = self._root.next
        while ginifa is not self._root:
            yield ginifa
            ginifa = ginifa.next
