"""Takes typed requests apart, five-point scales and refusals included."""

from caster_miner_sdk.criterion_evaluation import CriterionEvaluationRequest, CriterionEvaluationResponse, FeedSearchContext, VerdictOptionPayload
from caster_miner_sdk.decorators import entrypoint
from caster_miner_sdk.verdict import VerdictOption, VerdictOptions


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request) -> CriterionEvaluationResponse:
    asked = CriterionEvaluationRequest.model_validate(request)
    five = VerdictOptions(options=tuple(VerdictOption(value=v, description=f"{v} of 5") for v in (1, 2, 3, 4, 5)))
    told = [five.normalize(v) for v in (1, 3, 5)]
    for bad in (lambda: five.validate(6), lambda: VerdictOptions(options=(VerdictOption(value=0, description="a"), VerdictOption(value=7, description="b")))):
        try:
            bad()
            told.append("taken")
        except ValueError:
            told.append("refused")
    for extra in ({"colour": "red"}, {"claim_text": "  "}, {"verdict_options": [{"value": 1, "description": "a"}]}):
        try:
            CriterionEvaluationRequest.model_validate({**request, **extra})
            told.append("taken")
        except ValueError:
            told.append("refused")
    assert isinstance(asked.context, FeedSearchContext) and isinstance(asked.verdict_options[0], VerdictOptionPayload)
    return CriterionEvaluationResponse(verdict=1, justification=f"{told} {asked.context.enqueue_seq} {sorted(asked.model_dump())}", citations=[])
