"""Reads two polynomials, writes their product."""
import sys


def multiply(a, b):
    out = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[i + j] += x * y
    return out


if __name__ == "__main__":
    a, b = ([int(x) for x in line.split()] for line in sys.stdin)
    print(*multiply(a, b))
