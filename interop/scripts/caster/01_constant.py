"""Answers the highest verdict without looking at anything."""

from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    best = max(o["value"] for o in request["verdict_options"])
    return {"verdict": best, "justification": "Nothing speaks against it.", "citations": []}
