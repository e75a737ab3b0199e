"""Decimal strings to integer cents and back."""

import re

_AMOUNT = re.compile(r"\A(-?)([0-9]+)\.([0-9]{2})\Z")


def cents(text):
    match = _AMOUNT.match(text)
    if match is None:
        raise ValueError("not an amount: %r" % (text,))
    sign, whole, part = match.groups()
    value = int(whole) * 100 + int(part)
    return -value if sign else value


def text(value):
    sign = "-" if value < 0 else ""
    return "%s%d.%02d" % (sign, abs(value) // 100, abs(value) % 100)
