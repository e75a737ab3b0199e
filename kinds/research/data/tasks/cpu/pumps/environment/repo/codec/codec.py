"""Reads standard input, writes standard output: compress or decompress."""
import sys
import zlib

if __name__ == "__main__":
    data = sys.stdin.buffer.read()
    out = zlib.compress(data, 6) if sys.argv[1] == "compress" else zlib.decompress(data)
    sys.stdout.buffer.write(out)
