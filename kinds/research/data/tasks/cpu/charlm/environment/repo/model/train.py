"""Reads a text, writes a model of it: pairs of characters."""
import json
import sys
from collections import Counter, defaultdict

if __name__ == "__main__":
    text = sys.stdin.read()
    counts = defaultdict(Counter)
    for a, b in zip(text, text[1:]):
        counts[""][b] += 1
        counts[a][b] += 1
    json.dump({"order": 1, "contexts": {s: [0.9, c] for s, c in counts.items()}}, sys.stdout)
