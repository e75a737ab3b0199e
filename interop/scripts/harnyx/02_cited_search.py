"""Searches with several queries and cites by position."""

from harnyx_miner_sdk.api import search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import CitationRef, Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    found = await search_web([request.text, "harbour dredged"], provider="desearch", num=3)
    cited = [CitationRef(receipt_id=found.receipt_id, result_id=r.result_id) for r in found.results]
    text = " ".join(f"{r.title} [[{n}]]" for n, r in enumerate(found.results, 1))
    return Response(text=text, note=f"{len(found.response.data)} pages, {found.result_policy}", citations=cited)
