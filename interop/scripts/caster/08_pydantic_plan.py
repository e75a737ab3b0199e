"""Keeps its work in models of its own, as larger agents do."""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from caster_miner_sdk.api import search_web
from caster_miner_sdk.decorators import entrypoint


class Stance(str, Enum):
    SUPPORTS = "supports"
    SILENT = "silent"


class Evidence(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    url: str
    stance: Stance
    weight: float = Field(ge=0, le=1)


class Plan(BaseModel):
    claim: str
    evidence: list[Evidence] = Field(default_factory=list)

    @property
    def score(self) -> float:
        return sum(e.weight for e in self.evidence if e.stance is Stance.SUPPORTS)


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request: dict) -> dict:
    plan = Plan(claim=request["claim_text"])
    words = {w.strip(".,").lower() for w in plan.claim.split() if len(w) > 3}
    for result in (await search_web(plan.claim, num=4)).results:
        met = words & {w.strip(".,").lower() for w in (result.note or "").split()}
        stance = Stance.SUPPORTS if 2 * len(met) > len(words) else Stance.SILENT
        plan.evidence.append(Evidence(url=result.url, stance=stance, weight=round(len(met) / len(words), 3)))
    try:
        Evidence(url="x", stance="denies", weight=2)
    except ValidationError as error:
        wrong = error.error_count()
    return {"verdict": 1 if plan.score > 0.5 else -1, "justification": f"{wrong} {plan.model_dump_json()}"}
