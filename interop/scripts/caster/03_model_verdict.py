"""Lets a model judge and reads its fenced JSON with the SDK's own helper."""

from caster_miner_sdk.api import LlmChatResult, llm_chat
from caster_miner_sdk.criterion_evaluation import CriterionEvaluationRequest, CriterionEvaluationVerdict
from caster_miner_sdk.decorators import entrypoint


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    asked = CriterionEvaluationRequest.model_validate(request)
    options = asked.verdict_options_domain()
    chat: LlmChatResult = await llm_chat(
        model="openai/gpt-oss-20b",
        messages=[
            {"role": "system", "content": "\n".join(f"{o.value}: {o.description}" for o in asked.verdict_options)},
            {"role": "user", "content": asked.claim_text + " Answer as fenced JSON."},
        ],
        temperature=0.0,
        max_output_tokens=200,
    )
    said = CriterionEvaluationVerdict.from_llm_content(chat.llm.raw_text or "")
    options.validate(said.verdict)
    return {"verdict": said.verdict, "justification": f"{said.justification} ({options.normalize(said.verdict):.2f}, {options.description_for(said.verdict)})", "citations": []}
