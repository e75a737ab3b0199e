"""Searches once and cites what it found."""

from caster_miner_sdk.api import search_web
from caster_miner_sdk.criterion_evaluation import CriterionEvaluationRequest
from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request: dict) -> dict:
    asked = CriterionEvaluationRequest.model_validate(request)
    found = await search_web(asked.claim_text, num=3)
    cited = [{"receipt_id": found.receipt_id, "result_id": r.result_id} for r in found.results]
    notes = " / ".join(f"{r.index}:{r.url}:{r.title}" for r in found.results)
    return {"verdict": 1 if cited else -1, "justification": f"{len(cited)} of {len(found.response.data)} pages: {notes}", "citations": cited}
