"""Writes a Golomb ruler of 30 marks, an integer a line: Erdos and Turan's, of a prime."""

MARKS, PRIME = 30, 31


def ruler():
    return [2 * PRIME * k + k * k % PRIME for k in range(MARKS)]


if __name__ == "__main__":
    print(*ruler(), sep="\n")
