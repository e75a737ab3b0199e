"""Writes 26 circles in the unit square, x y r a line: rows of six."""


def circles():
    r = 1 / 12
    return [((2 * (i % 6) + 1) * r, (2 * (i // 6) + 1) * r, r) for i in range(26)]


if __name__ == "__main__":
    for x, y, r in circles():
        print(f"{x:.12f} {y:.12f} {r - 1e-11:.12f}")
