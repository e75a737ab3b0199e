"""The row of page links."""

GAP = None


def links(number, pages, around=1):
    """Page numbers to link: the ends and those around number, with GAP between.

    A gap that would hide a single page shows that page.
    """
    wanted = {1, pages}
    for n in range(number - around, number + around + 1):
        if 1 <= n <= pages:
            wanted.add(n)
    row = []
    for n in sorted(wanted):
        if row:
            skipped = n - row[-1] - 1
            if skipped == 1:
                row.append(n - 1)
            elif skipped > 1:
                row.append(GAP)
        row.append(n)
    return row
