"""Takes the first product that search finds for the name and brand of each item. It asks no model and looks at nothing."""

import re
from os import getenv

from src.agent.agent_interface import create_dialogue_step, execute_tool_call, register_tool
from src.agent.proxy_client import ProxyClient

client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=1)
register_tool("find_product", lambda **args: client.get("/search/find_product", args) or [])
register_tool("recommend_product", lambda product_ids: f"Having recommended the products to the user: {product_ids}.")
register_tool("terminate", lambda status="success": f"The interaction has been completed with status: {status}")


def agent_main(problem_data):
    query = problem_data["query"]
    steps, ids = [], []

    def step(think, *calls):
        done = [execute_tool_call(n, p) for n, p in calls]
        steps.append(create_dialogue_step(think, done, "", query, len(steps) + 1))
        return done[0]["result"]

    body = query.split(" Rules of the voucher")[0]
    if problem_data.get("category") == "Product":
        wishes = [re.split(r": |Long story short, I want ", body, maxsplit=1)[-1]]
    else:
        wishes = re.split(r"(?:First|To begin with|Second|Then|Third|Besides|Fourth|Last): ", body)[1:]
    for wish in wishes:
        words = re.split(r", | – ", wish, maxsplit=1)[0]
        brand = re.findall(r"(?:of the brand|by) (\w+)|should be a (\w+)", wish)
        hits = step("I search for the words.", ("find_product", {"q": " ".join([words, *("".join(b) for b in brand)]), "page": 1}))
        if hits:
            ids.append(hits[0]["product_id"])
    step("I take the first ones.", ("recommend_product", {"product_ids": ",".join(ids)}), ("terminate", {"status": "success"}))
    return steps
