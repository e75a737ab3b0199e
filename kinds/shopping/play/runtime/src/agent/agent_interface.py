"""Tools, their calls, and the steps that an episode is made of (ORO's names)."""

import base64
import hashlib
import json
import time

_tools = {}
_TOOL_REGISTRY = _tools  # agents of ORO look tools up here


def register_tool(name, func):
    """Makes func known under name; a later one of the same name replaces it."""
    _tools[name] = func
    return func


def Tool(name=None):  # noqa: N802, the name agents use
    """Registers a function as a tool: bare, or as Tool("name")."""
    if callable(name):
        return register_tool(name.__name__, name)

    def decorate(func):
        return register_tool(name or func.__name__, func)

    return decorate


def get_tool(name):
    """Returns the function of a tool; ValueError names those there are."""
    if name not in _tools:
        raise ValueError(f"Tool '{name}' not found. Available tools: {sorted(_tools)}")
    return _tools[name]


def generate_tool_call_id(name, parameters, length=8):
    """Names a call by its content: the same call has the same id."""
    text = name + "\n" + str(parameters)
    digest = base64.urlsafe_b64encode(hashlib.md5(text.encode("utf-8")).digest()).decode("ascii")
    for c in "=+/":
        digest = digest.replace(c, "")
    return digest[:length]


def execute_tool_call(name, parameters):
    """Calls a tool and returns the call as a step keeps it."""
    result = get_tool(name)(**parameters)
    return {
        "name": name,
        "parameters": parameters,
        "tool_call_id": generate_tool_call_id(name, parameters),
        "result": result,
    }


def format_content(think="", tool_calls=None, response=""):
    """Writes the parts of a message as tagged text; empty parts are left out."""
    parts = []
    if think:
        parts.append(f"<think>\n{think}\n</think>")
    if tool_calls:
        calls = [{"name": c.get("name"), "parameters": c.get("parameters")} for c in tool_calls]
        parts.append(f"<tool_call>\n{json.dumps(calls, ensure_ascii=False)}\n</tool_call>")
    if response:
        parts.append(f"<response>\n{response}\n</response>")
    return "\n".join(parts)


def create_dialogue_step(think, tool_results, response, query, step):
    """Makes one step of an episode, stamped now."""
    message = {}
    if think:
        message["think"] = think
    if tool_results:
        message["tool_call"] = tool_results
    if response:
        message["response"] = response
    return {
        "completion": {
            "reasoning_content": "",
            "content": format_content(think, tool_results, response),
            "message": message,
        },
        "extra_info": {"step": step, "query": query, "timestamp": int(time.time() * 1000)},
    }
