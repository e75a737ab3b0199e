"""Writes directions in which spheres touch one in eleven dimensions, a vector a line: the roots of D11."""
from itertools import combinations, product

N = 11


def vectors():
    for i, j in combinations(range(N), 2):
        for a, b in product((1, -1), repeat=2):
            v = [0] * N
            v[i], v[j] = a, b
            yield v


if __name__ == "__main__":
    for v in vectors():
        print(*v)
