import unittest

from udiff import Malformed, parse, reverse

DIFF = """\
--- a/file
+++ b/file
@@ -1,3 +1,3 @@ section
 one
-two
+TWO
 three
@@ -9 +9,2 @@
-nine
+NINE
+ten
"""


class TestParse(unittest.TestCase):
    def test_headers(self):
        hunks = parse(DIFF)
        self.assertEqual([h[:4] for h in hunks], [(1, 3, 1, 3), (9, 1, 9, 2)])
        self.assertEqual(hunks[0].lines[1], ("-", "two\n"))

    def test_end_of_file_mark(self):
        hunks = parse("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n")
        self.assertEqual(hunks[0].lines, [("-", "a\n"), ("+", "b")])

    def test_malformed(self):
        for text in ("@@ -1 +1 @@\n-a\n", "@@ -1 +1 @@\n?\n", "@@ -1 +1 @@\n\\ No newline\n"):
            with self.assertRaises(Malformed, msg=text):
                parse(text)

    def test_reverse(self):
        once = reverse(parse(DIFF))
        self.assertEqual(once[1].lines[0], ("+", "nine\n"))
        self.assertEqual(reverse(once), parse(DIFF))
