"""Reads a page and cites the passage that it uses."""

from harnyx_miner_sdk.api import fetch_page, search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import CitationRef, CitationSlice, Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    found = await search_web(request.text, provider="exa", num=1)
    page = await fetch_page(found.results[0].url, provider="exa", timeout=20)
    content = page.response.data[0].content
    assert content == page.results[0].note
    end = min(len(content), 120)
    return Response(text=f"{content[:end]} [[1]]", citations=[CitationRef(receipt_id=page.receipt_id, result_id=page.results[0].result_id, slices=[CitationSlice(start=0, end=end)])])
