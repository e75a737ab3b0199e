import difflib
import unittest

from udiff import Conflict, apply, parse, reverse

OLD = "".join("line %d\n" % i for i in range(1, 21))


def diff(old, new, n=3):
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a", "b", n=n)
    return "".join(lines)


class TestApply(unittest.TestCase):
    def test_change(self):
        new = OLD.replace("line 5\n", "LINE 5\n").replace("line 15\n", "")
        self.assertEqual(apply(parse(diff(OLD, new)), OLD), new)

    def test_insert_with_context(self):
        new = OLD.replace("line 5\n", "line 5\nextra\n")
        self.assertEqual(apply(parse(diff(OLD, new)), OLD), new)

    def test_moved(self):
        new = OLD.replace("line 5\n", "LINE 5\n").replace("line 15\n", "LINE 15\n")
        top = "top 1\ntop 2\n"
        self.assertEqual(apply(parse(diff(OLD, new)), top + OLD), top + new)

    def test_new_file(self):
        self.assertEqual(apply(parse("@@ -0,0 +1,2 @@\n+a\n+b\n"), ""), "a\nb\n")

    def test_change_without_context(self):
        new = OLD.replace("line 5\n", "LINE 5\n")
        self.assertEqual(apply(parse(diff(OLD, new, n=0)), OLD), new)

    def test_conflict(self):
        with self.assertRaises(Conflict):
            apply(parse("@@ -1 +1 @@\n-x\n+y\n"), "a\n")

    def test_reverse(self):
        new = OLD.replace("line 9\n", "nine\nand a half\n")
        self.assertEqual(apply(reverse(parse(diff(OLD, new))), new), OLD)
