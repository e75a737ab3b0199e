"""The seed era's task contract."""

from agon_sdk.criterion import (
    Citation,
    CriterionEvaluationRequest,
    CriterionEvaluationResponse,
    VerdictOption,
    normalise_verdict,
    parse_json_reply,
)

__all__ = [
    "Citation",
    "CriterionEvaluationRequest",
    "CriterionEvaluationResponse",
    "VerdictOption",
    "normalise_verdict",
    "parse_json_reply",
]
