"""Orders passages by how near they are to the question."""

from harnyx_miner_sdk.api import embed_text, search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import CitationRef, Query, Response


def near(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


@entrypoint("query")
async def query(request: Query) -> Response:
    found = await search_web(request.text, provider="exa", num=3)
    asked = await embed_text(request.text, provider="openrouter", model="qwen/qwen3-embedding-8b", input_type="query")
    pages = await embed_text([r.note or "-" for r in found.results], provider="openrouter", model="qwen/qwen3-embedding-8b", input_type="document")
    ranked = sorted(((near(asked.response.data[0].embedding, e.embedding), e.index) for e in pages.response.data), reverse=True)
    best = found.results[ranked[0][1]]
    return Response(text=f"{[(round(s, 6), i) for s, i in ranked]} {pages.response.dimensions} [[1]]", citations=[CitationRef(receipt_id=found.receipt_id, result_id=best.result_id)])
