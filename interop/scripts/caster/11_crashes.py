"""Falls over a page that is not there: a fault of the script, as it should be told."""

from caster_miner_sdk.api import search_web
from caster_miner_sdk.decorators import entrypoint


class NoEvidence(LookupError):
    pass


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    found = await search_web("zzzz qqqq", num=1)
    if not found.results:
        raise NoEvidence("nothing was found for " + request["rubric_title"])
    return {"verdict": 1, "justification": "found"}
