"""Reads lines, writes them sorted, and how often it compared on the last line."""
import sys

COUNT = 0


def less(a, b):
    global COUNT
    COUNT += 1
    return a < b


def solve(lines):
    out = list(lines)
    for i in range(len(out)):
        for j in range(i + 1, len(out)):
            if less(out[j], out[i]):
                out[i], out[j] = out[j], out[i]
    return out


if __name__ == "__main__":
    for line in solve(sys.stdin.read().splitlines()):
        print(line)
    print(COUNT)
