"""Sends calls at once, of which the era lets one through at a time."""

import asyncio

from caster_miner_sdk.api import test_tool
from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    first = await test_tool("hello")
    echoes = [first.response.echo, first.response.status, first.result_policy, first.results[0].index]
    lock = asyncio.Lock()

    async def one(n):
        async with lock:
            return (await test_tool(f"n{n}")).response.echo

    echoes += await asyncio.gather(*(one(n) for n in range(4)))
    return {"verdict": 1, "justification": repr(echoes)}
