"""Shops by rules: takes the wish apart, searches, compares attributes.

It asks no model. That shows: what solves problems without thinking is worth
less here (the reasoning coefficient).
"""

import re
from os import getenv

from src.agent.agent_interface import Tool, create_dialogue_step, execute_tool_call
from src.agent.proxy_client import ProxyClient

client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=2)

SERVICES = {
    "from an official store": "official",
    "with free shipping": "freeShipping",
    "with cash on delivery": "COD",
    "on flash sale": "flashsale",
}
ORDER = r"(?:First|To begin with|Second|Then|Third|Besides|Fourth|Last): "


@Tool
def find_product(**args):
    args.setdefault("page", 1)
    return client.get("/search/find_product", args) or []


@Tool
def view_product_information(product_ids):
    return client.get("/search/view_product_information", {"product_ids": product_ids}) or []


@Tool
def recommend_product(product_ids):
    return f"Having recommended the products to the user: {product_ids}."


@Tool
def terminate(status="success"):
    return f"The interaction has been completed with status: {status}"


def read_item(text):
    """Takes "words, of the brand x, priced between 1 and 2 pesos, colour: red" apart."""
    item = {"head": "", "price": None, "service": [], "want": []}
    for i, part in enumerate(p.strip(" .?") for p in text.split(", ")):
        between = re.match(r"priced between ([\d.]+) and ([\d.]+) pesos", part)
        most = re.match(r"for at most ([\d.]+) pesos", part)
        least = re.match(r"that costs at least ([\d.]+) pesos", part)
        brand = re.match(r"of the brand (.+)", part)
        option = re.match(r"to be had in (\S+) (.+)", part)
        if between:
            item["price"] = f"{between[1]}-{between[2]}"
        elif most:
            item["price"] = f"-{most[1]}"
        elif least:
            item["price"] = f"{least[1]}-"
        elif brand:
            item["want"].append(("brand", brand[1]))
        elif part in SERVICES:
            item["service"].append(SERVICES[part])
        elif option:
            item["want"].append((option[1], option[2]))
        elif ": " in part:
            k, v = part.split(": ", 1)
            item["want"].append((k, v))
        elif i == 0:
            item["head"] = part
    return item


def read_wish(query, category):
    body = query.split(" Rules of the voucher: ")[0]
    if category == "Product":
        body = body.split(": ", 1)[-1].split(". Which one fits")[0]
        return [read_item(body)]
    return [read_item(x) for x in re.split(ORDER, body)[1:]]


def fits(info, item):
    """Counts what a product has of what is wanted."""
    have = {(k.lower(), str(x).lower()) for k, v in (info.get("attributes") or {}).items() for x in v}
    best = 0
    for option in [{}] + list((info.get("sku_options") or {}).values()):
        pairs = have | {(k.lower(), str(v).lower()) for k, v in option.items()}
        best = max(best, sum((k.lower(), v.lower()) in pairs for k, v in item["want"]))
    return best


class Shopper:
    def __init__(self, query):
        self.query, self.steps = query, []

    def call(self, think, *calls):
        done = [execute_tool_call(name, args) for name, args in calls]
        self.steps.append(create_dialogue_step(think, done, "", self.query, len(self.steps) + 1))
        return [d["result"] for d in done]

    def candidates(self, item, shop=None):
        """Returns products by how well they fit, best first."""
        words = item["head"] + " " + " ".join(v for _, v in item["want"])
        hits = {}
        for q in (words, item["head"]):
            for page in (1, 2):
                args = {"q": q, "page": page}
                if shop:
                    args["shop_id"] = shop
                if item["price"]:
                    args["price"] = item["price"]
                if item["service"]:
                    args["service"] = ",".join(item["service"])
                for h in self.call("I search.", ("find_product", args))[0]:
                    hits.setdefault(h["product_id"], h)
                if shop or len(hits) >= 20:
                    break
        if not hits:
            return []
        infos = self.call("I look at what it says.", ("view_product_information", {"product_ids": ",".join(hits)}))[0]
        scored = [(fits(i, item), hits[i["product_id"]]) for i in infos if i["product_id"] in hits]
        head = set(item["head"].lower().split())
        scored.sort(key=lambda s: (-s[0], -len(head & set(s[1]["title"].lower().split())), s[1]["price"]))
        return [dict(h, fit=n, full=n == len(item["want"])) for n, h in scored]

    def one_shop(self, items):
        best = []
        for first in self.candidates(items[0])[:6]:
            chosen = [first]
            for item in items[1:]:
                found = self.candidates(item, first["shop_id"])
                if not found:
                    break
                chosen.append(found[0])
            if len(chosen) > len(best) or len(chosen) == len(best) and sum(c["fit"] for c in chosen) > sum(c["fit"] for c in best):
                best = chosen
            if len(best) == len(items) and all(c["full"] for c in best):
                break
        return best

    def answer(self, chosen):
        ids = ",".join(c["product_id"] for c in chosen)
        self.call("These fit.", ("recommend_product", {"product_ids": ids}), ("terminate", {"status": "success"}))
        return self.steps


def agent_main(problem_data):
    query, category = problem_data["query"], problem_data.get("category", "Product")
    items = read_wish(query, category)
    s = Shopper(query)
    if category == "Shop" or "voucher of a shop" in query:
        return s.answer(s.one_shop(items))
    chosen = []
    for item in items:
        found = s.candidates(item)
        if category == "Voucher":
            found.sort(key=lambda c: (-c["fit"], c["price"]))
        chosen += found[:1]
    return s.answer(chosen)
