import unittest

from csvsniff import parse


class TestParse(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(parse("a,b\n1,2\n"), [["a", "b"], ["1", "2"]])

    def test_quoted(self):
        self.assertEqual(parse('a;"b;c"\n"d ""e""";f', ";"), [["a", "b;c"], ['d "e"', "f"]])

    def test_windows_line_ends(self):
        self.assertEqual(parse("a,b\r\nc,\r\n"), [["a", "b"], ["c", ""]])

    def test_line_end_in_quotes(self):
        self.assertEqual(parse('a,"b\nc"\n'), [["a", "b\nc"]])
