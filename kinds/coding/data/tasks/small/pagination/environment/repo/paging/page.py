"""One page."""


class Page:
    """first and last are positions of the rows shown, counted from 0; last is included."""

    def __init__(self, items, number, pages, first, last, total):
        self.items = items
        self.number = number
        self.pages = pages
        self.first = first
        self.last = last
        self.total = total

    def label(self):
        if self.total == 0:
            return "0 of 0"
        return "%d-%d of %d" % (self.first + 1, self.last + 1, self.total)

    def has_next(self):
        return self.number < self.pages

    def has_previous(self):
        return self.number > 1
