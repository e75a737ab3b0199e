"""The file format; see docs/FORMAT.md."""

import struct
import zlib

from . import runs
from .errors import BadLevel
from .level import Level

_HEADER = struct.Struct("<4sHHI")
_MAGIC = b"TIL\x1a"


def dumps(level):
    body = b"".join(runs.encode(row) for row in level.rows)
    return _HEADER.pack(_MAGIC, level.width, level.height, zlib.crc32(body)) + body


def loads(data):
    if len(data) < _HEADER.size:
        raise BadLevel("header is cut off")
    magic, width, height, crc = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise BadLevel("not a level file")
    if zlib.crc32(data[_HEADER.size:]) != crc:
        raise BadLevel("checksum does not match")
    rows, pos = [], _HEADER.size
    for y in range(height):
        row, pos = runs.decode(data, pos, width)
        if len(row) != width:
            raise BadLevel("row %d has %d tiles, expected %d" % (y, len(row), width))
        rows.append(row)
    if pos != len(data):
        raise BadLevel("bytes after the last row")
    return Level(rows)
