"""Answers without looking at anything."""

from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    return Response(text=f"  Nothing is known of: {request.text}  ")
