"""Says that every claim is as true as can be. It shows what guessing is worth."""

from agon_sdk import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request: dict) -> dict:
    best = max(option["value"] for option in request["verdict_options"])
    return {"verdict": best, "justification": "The claim reads like a true one.", "citations": []}
