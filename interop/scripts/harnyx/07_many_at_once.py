"""Sends calls at once, of which the era lets twenty through."""

import asyncio

from harnyx_miner_sdk.api import search_web, test_tool
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    echoes = await asyncio.gather(*(test_tool(f"n{n}", timeout=10) for n in range(24)))
    found = await asyncio.gather(*(search_web(q, provider="parallel", num=1) for q in ("ferry", "harbour", "bridge")))
    return Response(output={"echoes": [e.response.echo for e in echoes], "found": [f.response.data[0].link for f in found]})
