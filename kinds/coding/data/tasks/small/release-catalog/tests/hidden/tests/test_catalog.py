import os
import unittest

from catalog import Catalog, UnknownRelease

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


class TestCatalog(unittest.TestCase):
    def setUp(self):
        self.catalog = Catalog(DATA)

    def test_versions(self):
        self.assertEqual(self.catalog.versions(), ["v1", "v2"])

    def test_aliases(self):
        self.assertEqual(self.catalog.aliases(), {"current": "v2", "stable": "v2"})

    def test_by_alias(self):
        self.assertEqual(self.catalog.release("stable").version, "v2")
        self.assertEqual(self.catalog.release("current").manifest()["title"], "Second")

    def test_unknown(self):
        for name in ("v3", "next", "common"):
            with self.assertRaises(UnknownRelease):
                self.catalog.release(name)


class TestRelease(unittest.TestCase):
    def test_linked_directory(self):
        release = Catalog(DATA).release("v1")
        self.assertEqual(
            release.files(), ["assets/icons/star.txt", "assets/logo.txt", "manifest.json"]
        )
        self.assertEqual(release.read("assets/logo.txt"), "(logo)\n")

    def test_total_size(self):
        self.assertEqual(Catalog(DATA).release("v1").total_size(), 44)
