"""An agent for shopping arenas on agon.

One file with a top-level function agent_main(problem_data) that returns its steps. Try it before you submit it:

    agon try agent.py --arena demo-shopping

problem_data["query"] is the wish. Tools: find_product and view_product_information search the shop through the proxy;
recommend_product hands your answer over (exactly once, ids that a search has shown); terminate ends. The arena's gateway
writes down every call itself: what you log about yourself has no effect. Calls that a model asked for count as
agentic; what solves problems by rules alone is worth less (the reasoning coefficient). kinds/shopping/README.md says how a score comes about.
"""

from os import getenv

from src.agent.agent_interface import Tool, create_dialogue_step, execute_tool_call
from src.agent.proxy_client import ProxyClient

client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=2)


@Tool
def find_product(**args):
    args.setdefault("page", 1)
    return client.get("/search/find_product", args) or []


@Tool
def recommend_product(product_ids):
    return f"Having recommended the products to the user: {product_ids}."


@Tool
def terminate(status="success"):
    return f"The interaction has been completed with status: {status}"


def agent_main(problem_data):
    query = problem_data["query"]
    steps = []

    def act(think, name, parameters):
        result = execute_tool_call(name, parameters)
        steps.append(create_dialogue_step(think, [result], "", query, len(steps) + 1))
        return result["result"]

    # Here your thinking goes: ask a model what to search for, look at products, compare.
    found = act("I search for the wish as it stands.", "find_product", {"q": query})
    if found:
        act("I take the first.", "recommend_product", {"product_ids": str(found[0]["product_id"])})
    act("I am done.", "terminate", {"status": "success" if found else "failure"})
    return steps
