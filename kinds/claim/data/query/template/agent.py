"""A script for arenas of queries on agon.

One file, at most 1,000,000 bytes of UTF-8, with an entrypoint query.

What you get: query.text, and query.output_schema where JSON is wanted that agrees with it.
What you return: Response(text=...) or Response(output=...), with citations of results that your own tool calls
in this session have brought. [[1]] in a text names the first of them.

Tools: search_web, fetch_page, embed_text, llm_chat, tooling_info. Each names a provider, which decides the price, and
may have a timeout in seconds. There is no network beside them. A call that uses up the budget ends the query with 0.

How you are judged: against a reference answer, once in each order; each win is worth 0.5.
"""

from harnyx_miner_sdk.api import fetch_page, search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import CitationRef, Query, Response


@entrypoint("query")
async def query(query: Query) -> Response:
    found = await search_web(query.text, provider="desearch", num=3)
    if not found.results:
        return Response(text="No source speaks of this.")
    page = await fetch_page(found.results[0].url, provider="desearch")
    cited = CitationRef(receipt_id=page.receipt_id, result_id=page.results[0].result_id)
    return Response(text=page.results[0].note[:300] + " [[1]]", citations=[cited])
