"""The catalog: which releases there are, and what they are also called."""

import os

from .release import MANIFEST, Release


class UnknownRelease(KeyError):
    pass


class Catalog:
    def __init__(self, root):
        self.root = root

    def versions(self):
        """Names of the releases, sorted; aliases are not among them."""
        names = []
        for entry in os.scandir(self.root):
            if entry.is_symlink() or not entry.is_dir():
                continue
            if os.path.exists(os.path.join(entry.path, MANIFEST)):
                names.append(entry.name)
        return sorted(names)

    def aliases(self):
        """Alias to version. Aliases of aliases are followed, dangling ones left out."""
        versions = {self._real(name): name for name in self.versions()}
        found = {}
        for entry in os.scandir(self.root):
            if entry.is_symlink() and self._real(entry.name) in versions:
                found[entry.name] = versions[self._real(entry.name)]
        return found

    def release(self, name):
        """The release of that version or alias."""
        version = self.aliases().get(name, name)
        if version not in self.versions():
            raise UnknownRelease(name)
        return Release(version, os.path.join(self.root, version))

    def _real(self, name):
        return os.path.realpath(os.path.join(self.root, name))
