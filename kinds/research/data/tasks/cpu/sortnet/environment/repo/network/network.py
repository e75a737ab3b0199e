"""Writes a sorting network of 17 wires, a comparator a line: bubble sort."""

WIRES = 17


def network():
    return [(i, i + 1) for end in range(WIRES - 1, 0, -1) for i in range(end)]


if __name__ == "__main__":
    for i, j in network():
        print(i, j)
