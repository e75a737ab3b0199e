"""A doubly linked list with a sentinel, the order book of the cache."""


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

    def push_front(self, node):
        first = self._root.next
        node.prev = self._root
        node.next = first
        self._root.next = node
        first.prev = node

    def unlink(self, node):
        node.prev.next = node.next
        node.next.prev = node.prev
        node.prev = node.next = node

    def last(self):
        """The least recently used node, or None when the list is empty."""
        node = self._root.prev
        return None if node is self._root else node

    def __iter__(self):
        node = self._root.next
        while node is not self._root:
            yield node
            node = node.next
