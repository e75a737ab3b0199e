"""Searches until its money is short, and tells how it went."""

from caster_miner_sdk.api import search_web, tooling_info
from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    info = await tooling_info()
    price = info.response["pricing"]["search_web"]["usd_per_call"]
    spent = []
    left = info.budget.session_remaining_budget_usd
    while left >= price and len(spent) < 5:
        found = await search_web(request["claim_text"], num=1)
        left = found.budget.session_remaining_budget_usd
        spent.append(f"{found.budget.session_used_budget_usd:.4f}")
    return {"verdict": 1, "justification": f"{price} a call, {','.join(spent)} spent, {left:.4f} left; {','.join(info.response['tool_names'])}"}
