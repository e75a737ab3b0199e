"""The graph: names and what each of them needs."""


class Graph:
    def __init__(self):
        self._needs = {}

    def add(self, name, needs=()):
        """Adds a package, or dependencies to one that is there; repeats are dropped."""
        known = self._needs.setdefault(name, [])
        for need in needs:
            if need not in known:
                known.append(need)

    def needs(self, name):
        return tuple(self._needs[name])

    def __contains__(self, name):
        return name in self._needs

    def __iter__(self):
        return iter(self._needs)

    def __len__(self):
        return len(self._needs)
