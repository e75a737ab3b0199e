"""Searches the feed that the claim was made of."""

from caster_miner_sdk.api import search_items
from caster_miner_sdk.criterion_evaluation import CriterionEvaluationRequest
from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    asked = CriterionEvaluationRequest.model_validate(request)
    found = await search_items(feed_id=asked.context.feed_id, enqueue_seq=asked.context.enqueue_seq, search_queries=[asked.claim_text, "harbour"], num_hit=5)
    told = [(str(h.job_id), str(h.content_id), h.external_id, h.enqueue_seq, h.text[:60]) for h in found.response.hits]
    return {"verdict": 1 if told else -1, "justification": repr(told)}
