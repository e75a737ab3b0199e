"""Asks pages, posts and passages one after the other."""

from caster_miner_sdk.api import search_ai, search_web, search_x
from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    claim = request["claim_text"]
    web = await search_web(claim, num=2, start=0)
    posts = await search_x(claim, count=2, sort="Latest")
    passages = await search_ai(claim, tools=["web", "twitter"], count=2, result_type="LINKS_WITH_SUMMARIES")
    parts = [
        [d.link for d in web.response.data],
        [(d.id, d.user.username if d.user else None, d.text) for d in posts.response.data],
        [(d.url, d.source) for d in passages.response.data],
    ]
    return {"verdict": 1, "justification": repr(parts), "citations": [{"receipt_id": posts.receipt_id, "result_id": posts.results[0].result_id}]}
