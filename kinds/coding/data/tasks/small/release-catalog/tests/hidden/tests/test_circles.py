import os
import tempfile
import unittest

from catalog import Catalog, Release

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


class TestCircles(unittest.TestCase):
    def setUp(self):
        self._dir = tempfile.TemporaryDirectory()
        self.addCleanup(self._dir.cleanup)
        self.root = os.path.join(self._dir.name, "r")
        os.mkdir(self.root)

    def put(self, name, text="x"):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def link(self, name, target):
        os.symlink(target, os.path.join(self.root, name))

    def files(self):
        return Release("r", self.root).files()

    def test_v2(self):
        release = Catalog(DATA).release("v2")
        self.assertEqual(
            release.files(),
            ["assets/icons/star.txt", "assets/logo.txt", "docs/guide.txt", "manifest.json"],
        )

    def test_v2_size(self):
        self.assertEqual(Catalog(DATA).release("v2").total_size(), 60)

    def test_through_alias_path(self):
        release = Release("v2", os.path.join(DATA, "stable"))
        self.assertEqual(len(release.files()), 4)

    def test_same_directory_linked_twice(self):
        self.put("shared/a.txt")
        self.link("left", "shared")
        self.link("right", "shared")
        self.assertEqual(self.files(), ["left/a.txt", "right/a.txt", "shared/a.txt"])

    def test_linked_file(self):
        self.put("a.txt", "abc")
        self.link("b.txt", "a.txt")
        self.assertEqual(self.files(), ["a.txt", "b.txt"])
        self.assertEqual(Release("r", self.root).total_size(), 6)

    def test_dangling(self):
        self.put("a.txt")
        self.link("gone", "nowhere")
        self.assertEqual(self.files(), ["a.txt"])

    def test_links_to_each_other(self):
        self.put("x/a.txt")
        self.put("y/b.txt")
        self.link("x/y", "../y")
        self.link("y/x", "../x")
        self.assertEqual(self.files(), ["x/a.txt", "x/y/b.txt", "y/b.txt", "y/x/a.txt"])

    def test_link_to_itself(self):
        self.put("a.txt")
        self.link("loop", "loop")
        self.assertEqual(self.files(), ["a.txt"])
