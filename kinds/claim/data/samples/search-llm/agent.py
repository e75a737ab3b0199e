"""Searches, then lets a model judge by what was found."""

import json

from agon_sdk import ToolInvocationError, entrypoint, llm_chat, parse_json_reply, search_web

SYSTEM = """You judge a claim by a rubric and by sources. Use nothing but the sources.
Answer with one JSON object and nothing else: {"verdict": <one of the allowed numbers>, "justification": "<two sentences that name the facts>"}"""


def prompt(request: dict, notes: list[str]) -> str:
    options = "\n".join(f"{o['value']}: {o['description']}" for o in request["verdict_options"])
    sources = "\n".join(f"[{i}] {n}" for i, n in enumerate(notes, 1)) or "none"
    return (
        f"Rubric: {request['rubric_title']}\n{request['rubric_description']}\n\n"
        f"Claim: {request['claim_text']}\n\nAllowed verdicts:\n{options}\n\nSources:\n{sources}"
    )


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request: dict) -> dict:
    allowed = [o["value"] for o in request["verdict_options"]]
    found = await search_web(request["claim_text"], num=3)
    cited = [r for r in found.results if r.note]
    answer = {"verdict": min(allowed), "justification": "The sources do not bear the claim out."}
    try:
        reply = await llm_chat(
            model="openai/gpt-oss-20b",
            messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt(request, [r.note for r in cited])}],
            temperature=0,
            max_output_tokens=400,
        )
        said = parse_json_reply(reply.response.raw_text or "")
        if said["verdict"] in allowed and str(said["justification"]).strip():
            answer = {"verdict": said["verdict"], "justification": str(said["justification"])}
    except (ToolInvocationError, ValueError, KeyError, TypeError, json.JSONDecodeError):
        pass  # the careful answer stands
    answer["citations"] = [{"receipt_id": found.receipt_id, "result_id": r.result_id} for r in cited[:2]]
    return answer
