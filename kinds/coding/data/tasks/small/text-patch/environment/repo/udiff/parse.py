"""Diff text to hunks."""

import re
from collections import namedtuple

# lines is a list of (sign, text); text has its line end, sign is " ", "-" or "+".
Hunk = namedtuple("Hunk", "old_start old_count new_start new_count lines")

_HEADER = re.compile(r"\A@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class Malformed(ValueError):
    pass


def parse(text):
    """Hunks of a unified diff; everything before the first hunk is ignored."""
    hunks, lines = [], None
    for line in text.splitlines(keepends=True):
        match = _HEADER.match(line)
        if match:
            lines = []
            start, count, new_start, new_count = match.groups()
            hunks.append(Hunk(
                int(start), 1 if count is None else int(count),
                int(new_start), 1 if new_count is None else int(new_count), lines,
            ))
        elif lines is None:
            continue
        elif line.startswith("\\"):
            if not lines:
                raise Malformed("end-of-file mark without a line")
            sign, last = lines[-1]
            lines[-1] = (sign, last.rstrip("\n"))
        elif line[0] in " -+":
            lines.append((line[0], line[1:]))
        elif line == "\n":
            # Some tools strip the blank of an empty context line.
            lines.append((" ", "\n"))
        else:
            raise Malformed("unexpected line in a hunk: %r" % line)
    for hunk in hunks:
        _check(hunk)
    return hunks


def reverse(hunks):
    """Hunks that undo hunks."""
    swap = {" ": " ", "-": "+", "+": "-"}
    return [
        Hunk(h.new_start, h.new_count, h.old_start, h.old_count,
             [(swap[sign], text) for sign, text in h.lines])
        for h in hunks
    ]


def _check(hunk):
    old = sum(sign != "+" for sign, _ in hunk.lines)
    new = sum(sign != "-" for sign, _ in hunk.lines)
    if (old, new) != (hunk.old_count, hunk.new_count):
        raise Malformed("hunk at line %d does not have the lines it announces" % hunk.old_start)
