"""Bytes of a log that the seed draws, the codec's own sources included, as a share of
what LZMA needs for the same log."""
import lzma
import os
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402
import draw  # noqa: E402

METRIC, WORST = "of_lzma", 64.0


def sources():
    """All files of the codec, in one string: what it knows counts too."""
    out = b""
    for top, dirs, files in os.walk("codec"):
        dirs.sort()
        for name in sorted(files):
            with open(os.path.join(top, name), "rb") as f:
                out += os.path.join(top, name).encode() + b"\0" + f.read()
    return out


def main():
    text = draw.logs(int(os.environ.get("AGON_SEED", "1")))
    packed = arena.run(["python3", "-I", "codec/codec.py", "compress"], text)
    if not packed.ok:
        arena.reject(METRIC, WORST, "compress_failed", packed.stderr.decode("utf-8", "replace"))
    back = arena.run(["python3", "-I", "codec/codec.py", "decompress"], packed.stdout)
    if not back.ok:
        arena.reject(METRIC, WORST, "decompress_failed", back.stderr.decode("utf-8", "replace"))
    if back.stdout != text:
        arena.reject(METRIC, WORST, "round_trip_failed")
    code = len(zlib.compress(sources(), 9))
    best = len(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    arena.finish(METRIC, (len(packed.stdout) + code) / best, compressed_bytes=len(packed.stdout), source_bytes=code, lzma_bytes=best)


main()
