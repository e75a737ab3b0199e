"""A loop in which a model calls a tool and is told what came of it."""

import json

from harnyx_miner_sdk.api import llm_chat, search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response

TOOLS = [{"type": "function", "function": {"name": "look", "description": "look something up", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}}]


@entrypoint("query")
async def query(request: Query) -> Response:
    messages = [{"role": "user", "content": request.text + " Call a tool."}]
    seen = []
    for _ in range(3):
        chat = await llm_chat(provider="openrouter", model="openai/gpt-oss-20b", messages=messages, tools=TOOLS, tool_choice="auto", max_output_tokens=200, temperature=0.1)
        message = chat.llm.choices[0].message
        if not message.tool_calls:
            seen.append(chat.llm.raw_text)
            break
        call = message.tool_calls[0]
        wanted = json.loads(call.arguments)
        found = await search_web(wanted["q"], provider="tavily", num=1)
        seen.append((call.name, wanted, len(found.results)))
        messages = [
            *messages,
            {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "type": "function", "name": call.name, "arguments": call.arguments}]},
            {"role": "tool", "tool_call_id": call.id, "content": found.results[0].note or ""},
        ]
    return Response(text=repr(seen))
