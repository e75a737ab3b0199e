"""Writes a cap set of F_3^8, a point a line: all words of two digits."""
from itertools import product


def cap():
    return product("01", repeat=8)


if __name__ == "__main__":
    for p in cap():
        print("".join(p))
