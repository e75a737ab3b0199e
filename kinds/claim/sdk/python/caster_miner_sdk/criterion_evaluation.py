"""The seed era's task contract."""

from agon_sdk.criterion import (
    Citation,
    CriterionEvaluationRequest,
    CriterionEvaluationResponse,
    CriterionEvaluationVerdict,
    FeedSearchContext,
    VerdictOption,
    VerdictOptions,
    normalise_verdict,
    parse_json_reply,
)
from agon_sdk.criterion import Citation as CriterionEvaluationCitationRef
from agon_sdk.criterion import VerdictOption as VerdictOptionPayload

__all__ = [
    "Citation",
    "CriterionEvaluationCitationRef",
    "CriterionEvaluationRequest",
    "CriterionEvaluationResponse",
    "CriterionEvaluationVerdict",
    "FeedSearchContext",
    "VerdictOption",
    "VerdictOptionPayload",
    "VerdictOptions",
    "normalise_verdict",
    "parse_json_reply",
]
