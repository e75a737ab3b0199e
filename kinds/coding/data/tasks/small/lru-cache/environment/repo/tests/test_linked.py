import unittest

from lru.linked import LinkedList, Node


class TestLinkedList(unittest.TestCase):
    def test_empty(self):
        lst = LinkedList()
        self.assertIsNone(lst.last())
        self.assertEqual(list(lst), [])

    def test_order(self):
        lst = LinkedList()
        for key in "abc":
            lst.push_front(Node(key))
        self.assertEqual([n.key for n in lst], ["c", "b", "a"])
        self.assertEqual(lst.last().key, "a")

    def test_unlink_middle(self):
        lst = LinkedList()
        nodes = [Node(key) for key in "abc"]
        for node in nodes:
            lst.push_front(node)
        lst.unlink(nodes[1])
        self.assertEqual([n.key for n in lst], ["c", "a"])
