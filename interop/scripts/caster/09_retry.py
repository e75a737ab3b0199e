"""Asks again with a simpler prompt where a reply cannot be read."""

import asyncio
import json

from caster_miner_sdk.api import llm_chat
from caster_miner_sdk.decorators import entrypoint
from caster_miner_sdk.llm import LlmMessageContentPart


def text_of(chat) -> str:
    parts = []
    for choice in chat.llm.choices:
        for part in choice.message.content:
            assert isinstance(part, LlmMessageContentPart)
            if part.type == "text" and part.text:
                parts.append(part.text)
    return "".join(parts)


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    tried = []
    for prompt in ("Answer in prose.", "Answer as bare JSON."):
        chat = await llm_chat(model="openai/gpt-oss-120b", messages=[{"role": "user", "content": prompt}], temperature=0.2)
        tried.append((text_of(chat), chat.llm.usage.prompt_tokens, chat.llm.usage.completion_tokens, chat.llm.finish_reason))
        try:
            verdict = json.loads(tried[-1][0])["verdict"]
            return {"verdict": verdict, "justification": repr(tried)}
        except (ValueError, KeyError):
            await asyncio.sleep(0)
    return {"verdict": -1, "justification": repr(tried)}
