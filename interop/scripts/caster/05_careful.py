"""Catches what tools refuse, and says the error as the SDK words it."""

from caster_miner_sdk.api import llm_chat, search_web
from caster_miner_sdk.decorators import entrypoint
from caster_miner_sdk.tools.proxy import ToolInvocationError


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    errors = []
    for call in (
        lambda: llm_chat(model="no/such-model", messages=[{"role": "user", "content": "x"}], temperature=0.1),
        lambda: search_web("x", num=-3),
        lambda: search_web("x", colour="red"),
    ):
        try:
            await call()
        except ToolInvocationError as error:
            errors.append(str(error))
    return {"verdict": -1, "justification": " | ".join(errors)}
