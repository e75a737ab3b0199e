"""agon_sdk: what a script of a claim arena imports.

A script registers one coroutine and calls metered tools from it::

    from agon_sdk import entrypoint, search_web

    @entrypoint("evaluate_criterion")
    async def evaluate_criterion(request: dict) -> dict:
        found = await search_web(request["claim_text"], num=5)
        first = found.results[0]
        return {
            "verdict": 1,
            "justification": first.note,
            "citations": [{"receipt_id": found.receipt_id, "result_id": first.result_id}],
        }

Only the standard library of Python 3.11 is needed.
"""

from .client import ToolClient, ToolInvocationError, bind, current
from .criterion import (
    Citation,
    CriterionEvaluationRequest,
    CriterionEvaluationResponse,
    VerdictOption,
    normalise_verdict,
    parse_json_reply,
)
from .entry import Registry, entrypoint, get_entrypoint, registry
from .models import Record, ToolCallResponse
from .tools import (
    get_repo_file,
    llm_chat,
    search_ai,
    search_items,
    search_repo,
    search_web,
    search_x,
    test_tool,
    tooling_info,
)

__version__ = "0.1.0"

__all__ = [
    "Citation",
    "CriterionEvaluationRequest",
    "CriterionEvaluationResponse",
    "Record",
    "Registry",
    "ToolCallResponse",
    "ToolClient",
    "ToolInvocationError",
    "VerdictOption",
    "bind",
    "current",
    "entrypoint",
    "get_entrypoint",
    "get_repo_file",
    "llm_chat",
    "normalise_verdict",
    "parse_json_reply",
    "registry",
    "search_ai",
    "search_items",
    "search_repo",
    "search_web",
    "search_x",
    "test_tool",
    "tooling_info",
]
