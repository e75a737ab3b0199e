"""Run-length coding of one row."""

import struct
from itertools import groupby

from .errors import BadLevel

_LONG = struct.Struct("<BHB")


def encode(row):
    out = bytearray()
    for tile, group in groupby(row):
        length = len(list(group))
        if length < 256:
            out += bytes((length, tile))
        else:
            out += _LONG.pack(0, length, tile)
    return bytes(out)


def decode(data, start, width):
    """The row of that width that starts at data[start], and where the next one starts."""
    row = bytearray()
    pos = start
    while len(row) < width:
        if pos + 2 > len(data):
            raise BadLevel("file ends within a row")
        length, tile = data[pos], data[pos + 1]
        pos += 2
        if length == 0:
            if pos + 2 > len(data):
                raise BadLevel("file ends within a row")
            length = tile << 8 | data[pos]
            tile = data[pos + 1]
            pos += 2
        row += bytes((tile,)) * length
    return bytes(row), pos
