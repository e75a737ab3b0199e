"""Several rules at once."""

import heapq


def merge(rules):
    """Dates of all rules in order; a date on which several fall comes once."""
    last = None
    for day in heapq.merge(*rules):
        if day != last:
            yield day
        last = day


class Calendar:
    def __init__(self):
        self._jobs = []

    def add(self, name, rule):
        self._jobs.append((name, rule))

    def between(self, first, last):
        """(date, names) for each date from first to last on which something is due."""
        due = {}
        for name, rule in self._jobs:
            for day in rule:
                if day > last:
                    break
                if day >= first:
                    due.setdefault(day, []).append(name)
        return sorted(due.items())
