import os
import unittest

from csvsniff import guess_delimiter, load

GERMAN = '"Name, Vorname";"Preis, EUR"\n"Schmidt, Anna";"1,50"\n"Weber, Jan";"12,00"\n'
MULTILINE = 'id|text\n1|"one\ntwo, three, ""four"""\n2|"five, six"\n'


class TestQuotes(unittest.TestCase):
    def test_german_export(self):
        self.assertEqual(guess_delimiter(GERMAN), ";")

    def test_german_rows(self):
        self.assertEqual(load(GERMAN)[1], ["Schmidt, Anna", "1,50"])

    def test_line_end_in_quotes(self):
        sample = 'a;b\n"1\n2\n3\n4";x\n"5\n6\n7";y\n'
        self.assertEqual(guess_delimiter(sample), ";")
        # Each record has one ";", while the lines inside quotes hold one "," each.
        sample = 'k;"v,\nw,\nx,\ny,\nz,"\nl;"m,\nn,\no,"\n'
        self.assertEqual(guess_delimiter(sample), ";")

    def test_multiline_with_doubled_quotes(self):
        self.assertEqual(guess_delimiter(MULTILINE), "|")
        self.assertEqual(load(MULTILINE)[1], ["1", 'one\ntwo, three, "four"'])

    def test_windows_line_ends(self):
        self.assertEqual(guess_delimiter(GERMAN.replace("\n", "\r\n")), ";")

    def test_old_mac_line_ends(self):
        self.assertEqual(guess_delimiter("a;b\r1;2,2\r3;4\r"), ";")

    def test_blank_lines_do_not_count(self):
        self.assertEqual(guess_delimiter("a;b\n\n   \n1;2\n\n\n\n3;4\n"), ";")

    def test_last_line_without_end(self):
        self.assertEqual(guess_delimiter('"a,a";b\n"c,c";d'), ";")

    def test_unclosed_quote(self):
        self.assertEqual(guess_delimiter('a;b\nc;"d\n'), ";")


class TestSources(unittest.TestCase):
    def test_line_endings_kept(self):
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "csvsniff")
        for name in ("__init__.py", "reader.py", "sniff.py"):
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            self.assertGreater(data.count(b"\r\n"), 5, name)
            self.assertEqual(data.count(b"\n"), data.count(b"\r\n"), name)
