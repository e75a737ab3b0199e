"""Returns a dict that is an answer, as older scripts do."""

from harnyx_miner_sdk.api import search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def ask(q: Query) -> Response:
    found = await search_web(q.text, provider="firecrawl", num=1)
    return {"text": "By the page [[1]].", "citations": [{"receipt_id": found.receipt_id, "result_id": found.results[0].result_id}]}
