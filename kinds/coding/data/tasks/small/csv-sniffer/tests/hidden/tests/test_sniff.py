import unittest

from csvsniff import guess_delimiter, has_header, load


class TestGuess(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(guess_delimiter("a,b,c\n1,2,3\n"), ",")
        self.assertEqual(guess_delimiter("a;b\n1;2\n3;4\n"), ";")
        self.assertEqual(guess_delimiter("a\tb\n1\t2\n"), "\t")

    def test_steady_beats_frequent(self):
        self.assertEqual(guess_delimiter("x|a,b,c\ny|a\nz|d,e\n"), "|")

    def test_nothing_found(self):
        self.assertEqual(guess_delimiter("abc\n"), ",")
        self.assertEqual(guess_delimiter(""), ",")

    def test_load(self):
        self.assertEqual(load("a;b\n1;2\n"), [["a", "b"], ["1", "2"]])


class TestHeader(unittest.TestCase):
    def test_header(self):
        self.assertTrue(has_header([["name", "age"], ["Ann", "31"]]))
        self.assertFalse(has_header([["Bob", "30"], ["Ann", "31"]]))
        self.assertFalse(has_header([["name", "age"]]))
