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
    "official": r"official store|own store|no reseller",
    "freeShipping": r"free shipping|delivery fee|sent for nothing",
    "COD": r"cash on delivery|paid at my door|pay the courier",
    "flashsale": r"flash sale|reduced for a few hours|lightning offer",
}
ORDER = r"(?:First|To begin with|Second|Then|Third|Besides|Fourth|Last): "
NOT = r"(?:anything but|do not want|other than) [^,;()]*"
MONEY = r"(?:(\d+(?:\.\d+)?) [A-Za-z ]+ \((\d+) pesos each\)|(\d+(?:\.\d+)?) pesos)"


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


def bounds(text):
    """Reads a price out of a wish as "lo-hi", money of elsewhere at the rate that is named."""
    lo = hi = ""
    for m in re.finditer(MONEY, text):
        amount = float(m[3]) if m[3] else float(m[1]) * float(m[2])
        before, after = text[: m.start()][-24:], text[m.end():][:14]
        if re.search(r"at least $|cheaper than $|between $|from $", before) or "upwards" in after:
            lo = f"{amount:g}"
        elif re.search(r"at most $|more than $| and $| to $", before) or "is my limit" in after:
            hi = f"{amount:g}"
    return f"{lo}-{hi}" if lo or hi else None


def read_item(text):
    """Takes a wish apart: what it is called, what it may cost, how it is sent, what it must be and must not be."""
    head, rest = (re.split(r", | – ", text, maxsplit=1) + [""])[:2]
    return {
        "head": head.strip(" .?"), "price": bounds(rest), "service": [s for s, words in SERVICES.items() if re.search(words, rest)],
        "not": " ".join(re.findall(NOT, rest)).lower(), "text": re.sub(NOT, " ", rest).lower(),
    }


def read_wish(query, category):
    body = query.split(" Rules of the voucher: ")[0]
    if category == "Product":
        body = re.split(r": |Long story short, I want ", body, maxsplit=1)[-1].split(". Which one fits")[0]
        return [read_item(body)]
    return [read_item(x) for x in re.split(ORDER, body)[1:]]


def says(text, key, value):
    """Whether a wish names an attribute: its value, or for yes and no its key."""
    if value in ("yes", "no"):
        return re.search(rf"(?<!without ){re.escape(key)}" if value == "yes" else rf"without {re.escape(key)}|{re.escape(key)} no", text)
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", text)


def fits(info, item):
    """Counts what a product has of what is wanted, less what it must not have."""
    fixed = [(k.lower(), str(x).lower()) for k, v in (info.get("attributes") or {}).items() for x in v]
    best = None
    for option in [{}] + list((info.get("sku_options") or {}).values()):
        pairs = fixed + [(k.lower(), str(v).lower()) for k, v in option.items()]
        n = sum(1 for k, v in pairs if says(item["text"], k, v)) - 2 * sum(1 for k, v in fixed if says(item["not"], k, v))
        best = n if best is None else max(best, n)
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
        words = item["head"] + " " + item["text"]
        hits = {}
        for q in (item["head"], words[:300]):
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
        head = set(item["head"].lower().split())
        share = {i: len(head & set(h["title"].lower().split())) / len(head) for i, h in hits.items()}
        scored = [(fits(i, item) + 2 * share[i["product_id"]], hits[i["product_id"]]) for i in infos if i["product_id"] in hits]
        scored.sort(key=lambda s: (-s[0], s[1]["price"]))
        return [dict(h, fit=n) for n, h in scored]

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
