"""Names of the tools."""

SEARCH_TOOLS = {"search_web", "fetch_page"}
EMBEDDING_TOOLS = {"embed_text"}
LLM_TOOLS = {"llm_chat"}
TOOL_NAMES = MINER_TOOL_NAMES = SEARCH_TOOLS | EMBEDDING_TOOLS | LLM_TOOLS | {"test_tool", "tooling_info"}


def is_citation_source(name: str) -> bool:
    """Whether results of the tool can be cited."""
    return name in SEARCH_TOOLS


__all__ = ["EMBEDDING_TOOLS", "LLM_TOOLS", "MINER_TOOL_NAMES", "SEARCH_TOOLS", "TOOL_NAMES", "is_citation_source"]
