"""Bits per character of a held-out text under the model that train.py writes."""
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arena  # noqa: E402

METRIC, WORST = "bits_per_char", 64.0
MOST, ORDER = 2_000_000, 6


def number(x, high):
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) and 0 <= x <= high


def load(raw):
    """The model as {context: (weight, {character: probability})}; ValueError says what is wrong."""
    if len(raw) > MOST:
        raise ValueError("too_large")
    try:
        doc = json.loads(raw)
        order, contexts = doc["order"], doc["contexts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("not_a_model") from None
    if not isinstance(order, int) or not 0 <= order <= ORDER or not isinstance(contexts, dict):
        raise ValueError("not_a_model")
    out = {}
    for s, entry in contexts.items():
        if len(s) > order or not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], dict):
            raise ValueError("not_a_model")
        weight, mass = entry
        if not number(weight, 0.9999):
            raise ValueError("bad_weight")
        if any(len(c) != 1 or not number(m, 1e12) for c, m in mass.items()):
            raise ValueError("bad_mass")
        total = sum(mass.values())
        if total > 0:
            out[s] = (weight, {c: m / total for c, m in mass.items()})
    return order, out


def loss(order, model, text):
    bits = 0.0
    for i, c in enumerate(text):
        p = 1 / 256
        for n in range(min(order, i) + 1):
            entry = model.get(text[i - n : i])
            if entry:
                p = entry[0] * entry[1].get(c, 0.0) + (1 - entry[0]) * p
        bits -= math.log2(p)
    return bits / len(text)


def main():
    with open("data/corpus.txt", encoding="utf-8") as f:
        text = f.read()
    hidden = os.environ.get("AGON_HIDDEN")
    if hidden:
        with open(os.path.join(hidden, "corpus.txt"), encoding="utf-8") as f:
            held = f.read()
    else:
        cut = len(text) * 4 // 5
        text, held = text[:cut], text[cut:]
    r = arena.run(["python3", "-I", "model/train.py"], text.encode())
    if not r.ok:
        arena.reject(METRIC, WORST, "training_failed", r.stderr.decode("utf-8", "replace"))
    try:
        order, model = load(r.stdout)
    except ValueError as e:
        arena.reject(METRIC, WORST, str(e))
    arena.finish(METRIC, loss(order, model, held), model_bytes=len(r.stdout), train_seconds=round(r.wall, 3))


main()
