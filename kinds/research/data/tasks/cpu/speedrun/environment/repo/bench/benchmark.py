"""Processor time to learn a text and to code another with what was learnt, as a share
of what the reference takes beside it. The loss is the length of the code: a gate, over
several seeds.

Learning and coding run twice for each seed, in boxes of their own: one writes the
code, the other must read the text out of it. So whatever the code does not hold
has to come from the text to learn from, and the loss cannot be told better than it is.
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST, LOSS = "of_reference", 1e6, "bits_per_char"
SEEDS, LEARN, CODE = 6, 96_000, 3_000


def split(paragraphs, r):
    """A text to code and one to learn from: no paragraph is in both."""
    order = paragraphs[:]
    r.shuffle(order)
    parts = []
    for size in (CODE, LEARN):
        part = ""
        while len(part) < size:
            part += order.pop() + "\n"
        parts.append(part.encode("ascii"))
    return parts


def run(mode, data):
    got = arena.run(["python3", "-I", "lm/lm.py", mode], data, 60)
    if not got.ok:
        arena.reject(METRIC, WORST, mode + "_failed", f"{got.limit} " + got.stderr.decode("utf-8", "replace")[-1000:])
    return got


def main():
    hidden = os.environ.get("AGON_HIDDEN")
    with open(os.path.join(hidden, "corpus.txt") if hidden else "data/sample.txt", encoding="ascii") as f:
        paragraphs = [x for x in f.read().split("\n") if x]
    r = random.Random(int(os.environ.get("AGON_SEED", "1")))
    if not hidden:
        global LEARN
        LEARN = 38_000  # the sample is smaller
    losses, cpu, reference = [], 0.0, 0.0
    for _ in range(SEEDS):
        text, learn = split(paragraphs, r)
        head = len(learn).to_bytes(4, "big") + learn
        plain = arena.run(["python3", "-I", "bench/reference.py", "encode"], head + text, 60)
        if not plain.ok:
            raise SystemExit(f"the reference fails: {plain.limit} {plain.stderr[-500:]!r}")
        code = run("encode", head + text)
        back = run("decode", head + len(text).to_bytes(4, "big") + code.stdout)
        if back.stdout != text:
            arena.reject(METRIC, WORST, "round_trip_failed")
        losses.append(8 * len(code.stdout) / len(text))
        cpu += code.cpu + back.cpu
        reference += 2 * plain.cpu
    mean = sum(losses) / len(losses)
    arena.finish(METRIC, cpu / reference, **{"mean_" + LOSS: mean, "cpu_seconds": cpu / SEEDS})
    with open("out/result.json") as f:
        doc = json.load(f)
    doc["series"] = {LOSS: losses}
    with open("out/result.json", "w") as f:
        json.dump(doc, f, allow_nan=False)


main()
