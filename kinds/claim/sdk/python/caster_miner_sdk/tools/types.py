"""Names of the tools."""

SEARCH_TOOLS = {"search_web", "search_x", "search_ai", "search_repo", "get_repo_file", "search_items"}
LLM_TOOLS = {"llm_chat"}
TOOL_NAMES = SEARCH_TOOLS | LLM_TOOLS | {"test_tool", "tooling_info"}

__all__ = ["LLM_TOOLS", "SEARCH_TOOLS", "TOOL_NAMES"]
