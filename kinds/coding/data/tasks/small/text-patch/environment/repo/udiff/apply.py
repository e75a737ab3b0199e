"""Applying hunks."""

DRIFT = 100


class Conflict(Exception):
    """A hunk fits nowhere; nothing was applied."""


def apply(hunks, text):
    """text with all hunks applied, in order."""
    lines = text.splitlines(keepends=True)
    moved = 0  # how far the lines after the last hunk stand from where the hunks expect them
    floor = 0  # hunks may not overlap those before them
    for number, hunk in enumerate(hunks, 1):
        old = [line for sign, line in hunk.lines if sign != "+"]
        new = [line for sign, line in hunk.lines if sign != "-"]
        wanted = hunk.old_start - 1 + moved
        at = _locate(lines, old, wanted, floor)
        if at is None:
            raise Conflict("hunk %d does not fit near line %d" % (number, hunk.old_start))
        lines[at:at + len(old)] = new
        moved += at - wanted + len(new) - len(old)
        floor = at + len(new)
    return "".join(lines)


def _locate(lines, old, wanted, floor):
    """Where old stands in lines, nearest to wanted; None when nowhere within DRIFT."""
    if not old:
        return wanted
    for distance in range(DRIFT + 1):
        for at in (wanted - distance, wanted + distance):
            if at >= floor and lines[at:at + len(old)] == old:
                return at
    return None
