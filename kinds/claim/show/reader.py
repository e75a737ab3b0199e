"""Looks a claim up and believes it where a sentence has all of its numbers."""

import re

from agon_sdk import entrypoint, search_web


def words(text):
    return set(re.findall(r"[a-z]{4,}|\d+", text.lower()))


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    claim = request["claim_text"]
    found = await search_web(claim, num=5)
    best, page, of = 0, None, ""
    for result in found.results:
        for sentence in re.split(r"(?<=[.;]) ", result.note or ""):
            common = len(words(claim) & words(sentence))
            if common > best:
                best, page, of = common, result, sentence
    numbers = re.findall(r"\d+", claim)
    right = bool(numbers) and all(n in of for n in numbers)
    cited = [{"receipt_id": found.receipt_id, "result_id": page.result_id}] if page else []
    return {"verdict": 1 if right else -1, "justification": "The page says: " + of, "citations": cited}
