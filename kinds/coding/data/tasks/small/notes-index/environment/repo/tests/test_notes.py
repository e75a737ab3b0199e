import os
import unittest

from notesite import Note, build, read_notes, slug

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class TestSlug(unittest.TestCase):
    def test_english(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")
        self.assertEqual(slug("  Version 2.0 "), "version-2-0")


class TestNotes(unittest.TestCase):
    def test_titles(self):
        titles = [note.title for note in read_notes(os.path.join(ROOT, "notes"))]
        self.assertEqual(titles, ["cafe menu", "Über uns", "日本 料理", "日本 旅行"])

    def test_links(self):
        note = Note("x", "see [[One Two]], [[three|that]] and [not a link]")
        self.assertEqual(note.links(), ["one-two", "three"])


class TestBuild(unittest.TestCase):
    def test_backlink(self):
        pages = build(os.path.join(ROOT, "notes"), os.path.join(ROOT, "themes", "plain"))
        self.assertIn("Linked from: Über uns", pages["cafe-menu"])

    def test_index(self):
        pages = build(os.path.join(ROOT, "notes"), os.path.join(ROOT, "themes", "plain"))
        self.assertIn('<li><a href="cafe-menu.html">cafe menu</a></li>', pages["index"])
