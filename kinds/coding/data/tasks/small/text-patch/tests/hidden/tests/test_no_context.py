import difflib
import random
import unittest

from udiff import apply, parse, reverse


def diff(old, new, n=0):
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a", "b", n=n)
    return parse("".join(lines))


class TestNoContext(unittest.TestCase):
    def test_insert(self):
        patch = parse("@@ -2,0 +3 @@\n+new\n")
        self.assertEqual(apply(patch, "one\ntwo\nthree\n"), "one\ntwo\nnew\nthree\n")

    def test_insert_at_top(self):
        patch = parse("@@ -0,0 +1 @@\n+new\n")
        self.assertEqual(apply(patch, "one\ntwo\n"), "new\none\ntwo\n")

    def test_append(self):
        patch = parse("@@ -2,0 +3,2 @@\n+three\n+four\n")
        self.assertEqual(apply(patch, "one\ntwo\n"), "one\ntwo\nthree\nfour\n")

    def test_reverse_of_removal(self):
        old, new = "a\nb\nc\nd\n", "a\nd\n"
        patch = diff(old, new)
        self.assertEqual(apply(patch, old), new)
        self.assertEqual(apply(reverse(patch), new), old)

    def test_several(self):
        old = "".join("%d\n" % i for i in range(10))
        new = "top\n0\n1\n2\nx\ny\n3\n5\n6\n7\nz\n8\n9\nend\n"
        self.assertEqual(apply(diff(old, new), old), new)
        self.assertEqual(apply(reverse(diff(old, new)), new), old)

    def test_empty_file(self):
        self.assertEqual(apply(diff("", "a\n"), ""), "a\n")
        self.assertEqual(apply(reverse(diff("", "a\n")), "a\n"), "")
        self.assertEqual(apply(diff("a\n", ""), "a\n"), "")
        self.assertEqual(apply(reverse(diff("a\n", "")), ""), "a\n")

    def test_random_pairs(self):
        rng = random.Random(20240229)
        for _ in range(300):
            old = [rng.choice("abcdef") + "\n" for _ in range(rng.randrange(12))]
            new = [line for line in old if rng.random() < 0.7]
            for _ in range(rng.randrange(4)):
                new.insert(rng.randrange(len(new) + 1), rng.choice("abcxyz") + "\n")
            old, new = "".join(old), "".join(new)
            for n in (0, 3):
                self.assertEqual(apply(diff(old, new, n), old), new, (old, new, n))

    def test_context_still_drifts(self):
        old = "".join("line %d\n" % i for i in range(30))
        new = old.replace("line 9\n", "line 9\nadded\n").replace("line 20\n", "")
        patch = diff(old, new, 3)
        self.assertEqual(apply(patch, "zero\n" + old), "zero\n" + new)
