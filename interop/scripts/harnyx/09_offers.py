"""Chooses its model by what the host says it offers."""

from harnyx_miner_sdk.api import llm_chat, tooling_info
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    info = await tooling_info()
    offer = info.response["allowed_llm_provider_models"]
    rates = info.response["pricing"]["llm_chat"]["provider_models"]
    cheap = min(((rates[p][m]["output_per_million"], p, m) for p in offer for m in offer[p]))
    chat = await llm_chat(provider=cheap[1], model=cheap[2], messages=[{"role": "system", "content": "Answer in prose."}, {"role": "user", "content": request.text}], thinking={"enabled": True, "effort": "low"})
    b = chat.budget
    return Response(text=f"{cheap} {chat.llm.raw_text} {sorted(info.response['tool_names'])} {b.session_budget_usd} {b.session_hard_limit_usd} {chat.llm.usage.total_tokens}")
