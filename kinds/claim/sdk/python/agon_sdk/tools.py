"""The tools, as coroutines. Each sends exactly the keywords it was given.

Prices and limits are the arena's: ask ``tooling_info``. Every function raises
ToolInvocationError when its call fails.
"""

from __future__ import annotations

from typing import Any, Sequence

from .client import current
from .models import ToolCallResponse


async def test_tool(message: str, /, **kwargs: Any) -> ToolCallResponse:
    """Echo a message. Free."""
    return await current().call("test_tool", [message], kwargs)


async def tooling_info() -> ToolCallResponse:
    """Names, models and prices of the tools. Free."""
    return await current().call("tooling_info")


async def search_web(query: str, /, **kwargs: Any) -> ToolCallResponse:
    """Search pages. Keywords: num, start. ``results`` can be cited."""
    return await current().call("search_web", (), {"query": query, **kwargs})


async def search_x(query: str, /, **kwargs: Any) -> ToolCallResponse:
    """Search posts. Keywords: count, lang, sort (Top or Latest), user, start_date, end_date and filters."""
    return await current().call("search_x", (), {"query": query, **kwargs})


async def search_ai(prompt: str, /, *, tools: Sequence[str], **kwargs: Any) -> ToolCallResponse:
    """Search several kinds of sources. Keywords: count (1 to 200), date_filter, result_type, system_message.

    Paid by the result.
    """
    return await current().call("search_ai", (), {"prompt": prompt, "tools": list(tools), **kwargs})


async def search_repo(*, repo_url: str, commit_sha: str, query: str, **kwargs: Any) -> ToolCallResponse:
    """Search a repository at one commit. Keywords: path_glob, limit (1 to 50)."""
    return await current().call("search_repo", (), {"repo_url": repo_url, "commit_sha": commit_sha, "query": query, **kwargs})


async def get_repo_file(*, repo_url: str, commit_sha: str, path: str, **kwargs: Any) -> ToolCallResponse:
    """Read a file of a repository at one commit. Keywords: start_line, end_line (from 1)."""
    return await current().call("get_repo_file", (), {"repo_url": repo_url, "commit_sha": commit_sha, "path": path, **kwargs})


async def search_items(*, feed_id: str, enqueue_seq: int, search_queries: Sequence[str], num_hit: int, **kwargs: Any) -> ToolCallResponse:
    """Search a feed as it was before enqueue_seq."""
    return await current().call(
        "search_items", (),
        {"feed_id": str(feed_id), "enqueue_seq": enqueue_seq, "search_queries": list(search_queries), "num_hit": num_hit, **kwargs},
    )


async def llm_chat(*, messages: Sequence[Any], model: str, **kwargs: Any) -> ToolCallResponse:
    """Ask a model of the arena's list. Keywords: temperature, max_output_tokens, response_format and others.

    ``answer.response.choices[0].message`` holds the reply,
    ``answer.response.raw_text`` its text.
    """
    return await current().call("llm_chat", (), {"model": model, "messages": [_message(m) for m in messages], **kwargs})


def _message(m: Any) -> Any:
    dump = getattr(m, "model_dump", None)
    return dump() if dump is not None and not isinstance(m, dict) else m
