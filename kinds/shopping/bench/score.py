"""Scores episodes of the shopping arena the way one would write it in Python.

Usage: score.py CATALOGUE.jsonl PROBLEMS.json VECTORS.json EPISODES.jsonl > SCORES.jsonl

Line n of the episodes answers problem n modulo their number. Only the reading,
scoring and writing of episodes is timed; the rate goes to stderr. Same rules as
package shop/score in compat mode.
"""

import json
import math
import re
import sys
import time

TAGS = ("think", "tool_call", "response")


def split_ids(text):
    seen = []
    for part in text.split(","):
        part = part.strip()
        if part and part not in seen:
            seen.append(part)
    return seen


def answer(steps):
    ids = []
    for step in steps:
        try:
            for call in step["completion"]["message"]["tool_call"]:
                if call["name"] == "recommend_product":
                    given = call["parameters"].get("product_ids")
                    ids = split_ids(given) if isinstance(given, str) else []
        except (KeyError, TypeError, AttributeError):
            continue
    return ids


def render(message):
    parts = []
    if message.get("think"):
        parts.append("<think>" + message["think"] + "</think>")
    if message.get("tool_call"):
        parts.append("<tool_call>" + json.dumps(message["tool_call"]) + "</tool_call>")
    if message.get("response"):
        parts.append("<response>" + message["response"] + "</response>")
    return "\n".join(parts)


def well_formed(text):
    spans = {}
    for tag in TAGS:
        opened, closed = text.count("<%s>" % tag), text.count("</%s>" % tag)
        if opened == 0 and closed == 0:
            continue
        if opened != 1 or closed != 1:
            return False
        match = re.search("<%s>(.*?)</%s>" % (tag, tag), text, re.DOTALL)
        if match is None:
            return False
        spans[tag] = match
    if "think" not in spans or ("tool_call" not in spans and "response" not in spans):
        return False
    for a, ma in spans.items():
        for b, mb in spans.items():
            if a != b and ma.start(1) <= mb.start() < ma.end(1):
                return False
    if "tool_call" in spans:
        try:
            calls = json.loads(spans["tool_call"].group(1))
        except ValueError:
            return False
        if not isinstance(calls, list):
            return False
        for call in calls:
            if not isinstance(call.get("name"), str) or not isinstance(call.get("parameters"), dict):
                return False
    return True


def format_score(steps):
    if not steps:
        return 0
    total = 0.0
    for step in steps:
        try:
            good = 1.0 if well_formed(render(step["completion"]["message"])) else 0.0
            stamp = step.get("extra_info", {}).get("timestamp")
            if not isinstance(stamp, (int, float)) or stamp <= 0:
                good *= 0.5
            total += good
        except (KeyError, TypeError, AttributeError):
            continue
    return total / len(steps)


def length_score(steps):
    if not steps:
        return 0
    for call in steps[-1]["completion"]["message"].get("tool_call", []):
        if call.get("name") == "terminate":
            return 1 / len(steps)
    return 0


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b)))


def price_holds(price, bound):
    for mode, (lo, hi) in bound.items():
        if mode == "less than":
            return price <= hi
        if mode == "greater than":
            return price >= lo
        return lo <= price <= hi


def match(product, want, vectors):
    same = product["product_id"] == want["product_id"]
    hits, total, out = 0, 0, {"product": 1, "gt": 1 if same else 0}

    def field(name, got, wanted):
        nonlocal hits, total
        hits += got
        total += wanted
        out[name] = got / wanted if wanted else 0

    titles = want.get("title", [])
    met = sum(1 for t in titles if same or cosine(vectors[product["title"]], vectors[t]) >= 0.7)
    field("title", met, len(titles))
    prices = want.get("price", [])
    field("price", sum(1 for b in prices if price_holds(product["price"], b)), len(prices))
    services = want.get("service", [])
    field("service", sum(1 for s in services if s in product["service"]), len(services))
    pairs = [(k, v) for d in want.get("sku_options", []) for k, v in d.items()]
    pairs += [(k, v) for d in want.get("attributes", []) for k, vs in d.items() for v in vs]
    best = 0
    for option in [{}] + list(product["sku_options"].values()):
        best = max(best, sum(1 for k, v in pairs if option.get(k) == v or v in product["attributes"].get(k, [])))
    field("sku & attrs", best, len(pairs))
    out["rule"] = 1 if same else (hits / total if total else 0)
    return out


def within(voucher, total, shops):
    if total <= voucher["budget"]:
        return True
    if voucher["voucher_type"] == "platform" or (voucher["voucher_type"] == "shop" and len(shops) == 1):
        if total >= voucher["threshold"]:
            if voucher["discount_type"] == "fixed":
                after = total - voucher["face_value"]
            else:
                after = max(total * (1 - voucher["discount"]), total - voucher["cap"])
            return after <= voucher["budget"]
    return False


FIELDS = ("product", "gt", "rule", "title", "price", "service", "sku & attrs")


def score(problem, catalogue, vectors, steps):
    out = {"length": length_score(steps), "format": format_score(steps)}
    ids, category = answer(steps), problem["category"].lower()
    if category == "product":
        product = catalogue.get(ids[0]) if ids else None
        if product is not None:
            out.update(match(product, problem["reward"], vectors))
        return out
    wanted = problem["reward"]
    sums, hits, total, shops = dict.fromkeys(FIELDS, 0), 0, 0, set()
    for want, pid in zip(wanted, ids):
        product = catalogue.get(pid)
        if product is None:
            continue
        got = match(product, want, vectors)
        for f in FIELDS:
            sums[f] += got[f]
        if got["rule"] > 0:
            hits += 1
            total += product["price"]
            shops.add(product["shop_id"])
    for f in FIELDS:
        out[f] = sums[f] / len(wanted)
    if category == "shop":
        out["shop"] = 1 if hits == len(wanted) and len(shops) == 1 else 0
    else:
        out["budget"] = 1 if hits == len(wanted) and within(problem["voucher"], total, shops) else 0
    return out


def main():
    catalogue = {}
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            product = json.loads(line)
            catalogue[product["product_id"]] = product
    with open(sys.argv[2], encoding="utf-8") as f:
        problems = json.load(f)
    with open(sys.argv[3], encoding="utf-8") as f:
        vectors = json.load(f)
    began, n = time.process_time(), 0
    with open(sys.argv[4], encoding="utf-8") as f:
        for line in f:
            got = score(problems[n % len(problems)], catalogue, vectors, json.loads(line))
            sys.stdout.write(json.dumps(got) + "\n")
            n += 1
    print(n / (time.process_time() - began), file=sys.stderr)


main()
