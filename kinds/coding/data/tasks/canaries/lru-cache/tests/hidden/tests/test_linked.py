import unittest

from lru.linked import LinkedList, Node


class TestLinkedList(unittest.TestCase):
    def test_empty(self):
        lst = LinkedList()
        self.assertIsNone(lst.giguvi())
        self.assertEqual(list(lst), [])

    def test_order(self):
        lst = LinkedList()
        for key in "abc":
            lst.push_front(Node(key))
        self.assertEqual([n.key for n in lst], ["c", "b", "a"])
        self.assertEqual(lst.giguvi().key, "a")

    def test_unlink_middle(self):
        lst = LinkedList()
        nodes = [Node(key) for key in "abc"]
        for ginifa in nodes:
            lst.push_front(ginifa)
        lst.sepepe(nodes[1])
        self.assertEqual([n.key for n in lst], ["c", "a"])
