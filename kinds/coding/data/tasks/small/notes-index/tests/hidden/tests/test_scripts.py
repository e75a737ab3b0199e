import os
import re
import unittest
import unicodedata

from notesite import Note, build, slug

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class TestScripts(unittest.TestCase):
    def test_letters_kept(self):
        self.assertEqual(slug("Über uns"), "über-uns")
        self.assertEqual(slug("日本 旅行"), "日本-旅行")
        self.assertEqual(slug("Ελλάδα 2024"), "ελλάδα-2024")

    def test_case_folded(self):
        self.assertEqual(slug("STRASSE"), slug("Straße"))
        self.assertEqual(slug("ÜBER"), slug("über"))

    def test_composed(self):
        title = "Crème brûlée"
        self.assertEqual(slug(unicodedata.normalize("NFD", title)), slug(title))
        self.assertEqual(slug(title), "crème-brûlée")
        self.assertTrue(unicodedata.is_normalized("NFC", slug(unicodedata.normalize("NFD", title))))

    def test_dashes(self):
        self.assertEqual(slug("a_b -- c"), "a-b-c")
        self.assertEqual(slug("(x)"), "x")

    def test_untitled(self):
        self.assertEqual(slug("?!"), "untitled")
        self.assertEqual(slug(""), "untitled")

    def test_links(self):
        self.assertEqual(Note("x", "[[Über uns]] [[日本 旅行|Reise]]").links(), ["über-uns", "日本-旅行"])


class TestSite(unittest.TestCase):
    def build(self, theme):
        return build(os.path.join(ROOT, "notes"), os.path.join(ROOT, "themes", theme))

    def test_all_pages(self):
        pages = sorted(self.build("plain"))
        self.assertEqual(pages, ["cafe-menu", "index", "über-uns", "日本-料理", "日本-旅行"])

    def test_backlinks(self):
        pages = self.build("plain")
        self.assertTrue(pages["über-uns"].endswith("Linked from: 日本 料理\n"))
        self.assertTrue(pages["日本-料理"].endswith("Linked from: 日本 旅行\n"))

    def test_links_work_in_both_themes(self):
        for theme in ("plain", "été clair"):
            pages = self.build(theme)
            targets = re.findall(r'href="([^"]*)\.html"', pages["index"])
            self.assertEqual(len(targets), 4, theme)
            for target in targets:
                self.assertIn(target, pages, theme)

    def test_theme_keeps_its_look(self):
        index = self.build("été clair")["index"]
        self.assertTrue(index.startswith("<h1>Été clair</h1>\n<ol>\n"))
        self.assertTrue(index.endswith(">日本 旅行</a></li>\n</ol>\n"))
