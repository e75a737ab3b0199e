"""A model shops: it thinks, names the tools to call, and reads what they say.

What it does is what the model asked for, so every search is credited to it.
"""

import json
import re
from os import getenv

from src.agent.agent_interface import Tool, create_dialogue_step, execute_tool_call
from src.agent.proxy_client import ProxyClient

MAX_STEPS = 12
client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=2)

SYSTEM = """You are a shopping agent. Find the products that the user wishes for.
Each turn, think, then call tools, in exactly this form:
<think>what you know and what you do next</think>
<tool_call>[{"name": "...", "parameters": {...}}]</tool_call>
Tools:
find_product(q, page, shop_id?, price? "lo-hi", service? csv of official,freeShipping,COD,flashsale, sort? priceasc|pricedesc|order)
view_product_information(product_ids csv)
recommend_product(product_ids csv, in the order asked): this is your answer
terminate(status success|failure)
Compare candidates by their data, and say why you prefer one."""


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


def ask(history):
    reply = client.post("/inference/chat/completions", {
        "model": getenv("SANDBOX_MODEL", "deepseek-ai/DeepSeek-V3.2-TEE"), "temperature": 0, "max_tokens": 2000,
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(history)}],
    })
    if not reply:
        return "", []
    text = reply["choices"][0]["message"]["content"] or ""
    think = re.search(r"<think>(.*?)</think>", text, re.S)
    calls = re.search(r"<tool_call>(.*?)</tool_call>", text, re.S)
    try:
        wanted = json.loads(calls[1]) if calls else []
    except ValueError:
        wanted = []
    return (think[1].strip() if think else text.strip()), [c for c in wanted if isinstance(c, dict) and isinstance(c.get("parameters"), dict)]


def agent_main(problem_data):
    query = problem_data["query"]
    history, steps, empty = ["# Dialogue Records History", f"<user>\n{query}\n</user>"], [], 0
    for i in range(MAX_STEPS):
        think, calls = ask(history)
        if not think and not calls:
            empty += 1
            if empty == 3:
                break
            continue
        done = []
        for c in calls[:5]:
            try:
                done.append(execute_tool_call(c["name"], c["parameters"]))
            except Exception as e:
                done.append({"name": str(c.get("name")), "parameters": c["parameters"], "tool_call_id": "", "result": f"error: {e}"})
        steps.append(create_dialogue_step(think, done, "", query, i + 1))
        history.append(f"<think>\n{think}\n</think>\n<tool_call>\n{json.dumps(calls)}\n</tool_call>")
        history.append("<obs>\n" + json.dumps([{"tool_call_id": d["tool_call_id"], "results": d["result"]} for d in done])[:20000] + "\n</obs>")
        if not calls or any(c["name"] == "terminate" for c in calls):
            break
    return steps
