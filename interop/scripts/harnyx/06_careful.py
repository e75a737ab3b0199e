"""Catches what tools refuse, and says the error as the SDK words it."""

from harnyx_miner_sdk.api import fetch_page, llm_chat, search_web
from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response
from harnyx_miner_sdk.tools.proxy import ToolInvocationError


@entrypoint("query")
async def query(request: Query) -> Response:
    told = []
    for call in (
        lambda: llm_chat(provider="chutes", model="no/such-model", messages=[{"role": "user", "content": "x"}], temperature=0.1),
        lambda: fetch_page("https://nowhere.example/none", provider="exa"),
        lambda: search_web("x", provider="nobody"),
        lambda: search_web([], provider="exa"),
        lambda: search_web("x", provider="exa", timeout=0),
    ):
        try:
            await call()
            told.append("taken")
        except ToolInvocationError as error:
            told.append(str(error))
        except Exception as error:  # the SDK refuses some before they are sent
            told.append(type(error).__name__)
    return Response(text=" | ".join(told))
