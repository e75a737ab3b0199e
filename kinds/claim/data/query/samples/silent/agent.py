"""Answers every query the same way, with nothing to show for it."""

from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def query(query: Query) -> Response:
    if query.output_schema is not None:
        return Response(output={})
    return Response(text="The sources do not say.")
