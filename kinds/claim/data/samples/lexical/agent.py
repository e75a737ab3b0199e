"""Searches for the claim and compares words and numbers. It asks no model."""

import re

from agon_sdk import entrypoint, search_web

STOP = set("the a an of in on and or to for by with at is was were are this that all who which did not".split())
DENIALS = ("not", "none", "nobody", "only", "fewer", "less", "but")


def words(text: str) -> set[str]:
    return {w.rstrip("s") for w in re.findall(r"[a-z]+|\d[\d,.]*", text.lower()) if w not in STOP}


def sentences(text: str) -> list[str]:
    return [s for s in re.split(r"(?<=[.;])\s+", text) if s]


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request: dict) -> dict:
    claim = request["claim_text"]
    values = sorted(option["value"] for option in request["verdict_options"])
    found = await search_web(claim, num=3)
    best, share, source = "", 0.0, None
    wanted = words(claim)
    for result in found.results:
        for sentence in sentences(result.note or ""):
            overlap = len(wanted & words(sentence)) / max(1, len(wanted))
            if overlap > share:
                best, share, source = sentence, overlap, result
    if source is None or share < 0.2:
        return {"verdict": values[len(values) // 2], "justification": "No source speaks of this.", "citations": []}
    numbers = set(re.findall(r"\d[\d,.]*", claim))
    missing = [n for n in numbers if n.rstrip(".,") not in best]
    denied = any(f" {d} " in f" {best.lower()} " for d in DENIALS) and not any(f" {d} " in f" {claim.lower()} " for d in DENIALS)
    doubt = len(missing) + denied + (share < 0.5)
    verdict = values[-1] if doubt == 0 else values[0] if doubt > 1 or len(values) == 2 else values[len(values) // 2]
    return {
        "verdict": verdict,
        "justification": f"The closest source says: {best}",
        "citations": [{"receipt_id": found.receipt_id, "result_id": source.result_id}],
    }
