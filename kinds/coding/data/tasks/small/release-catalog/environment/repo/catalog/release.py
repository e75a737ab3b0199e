"""One release."""

import json
import os

MANIFEST = "manifest.json"


class Release:
    def __init__(self, version, path):
        self.version = version
        self.path = path

    def manifest(self):
        with open(os.path.join(self.path, MANIFEST), encoding="utf-8") as f:
            return json.load(f)

    def files(self):
        """Paths of all files relative to the release, sorted, with "/" between parts."""
        found = []
        for folder, _, names in os.walk(self.path, followlinks=True):
            for name in names:
                relative = os.path.relpath(os.path.join(folder, name), self.path)
                found.append(relative.replace(os.sep, "/"))
        return sorted(found)

    def total_size(self):
        """Bytes in all files."""
        return sum(os.path.getsize(os.path.join(self.path, name)) for name in self.files())

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as f:
            return f.read()
