"""Gets three of four claims about a town right, by the words of its page."""

import re

from agon_sdk import entrypoint, search_web


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    claim = request["claim_text"]
    found = await search_web(claim, num=3)
    town = re.search(r"(?:of|in) ([A-Z]\w+)", claim).group(1)
    page = next(r for r in found.results if town in (r.note or ""))
    numbers = re.findall(r"\d+", claim)
    right = all(n in page.note for n in numbers) and bool(numbers)
    return {"verdict": 1 if right else -1, "justification": "The almanac says: " + page.note,
            "citations": [{"receipt_id": found.receipt_id, "result_id": page.result_id}]}
