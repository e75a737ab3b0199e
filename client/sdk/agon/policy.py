"""How a model plays: its words as tokens, its tokens as tool calls.

A dialect turns a task and the answers of tools into tokens, and what a model
said into calls. Tokens of a model are kept as they were sampled and never made
anew from text, so that the mask of the loss is exact.

Dialects: `hermes` asks with the model's own chat template and reads
<tool_call>{json}</tool_call> (Qwen and most open models); `mini` is the short
form of small models that are trained here (see mini.py). A model's directory
says which in agon.json ({"dialect": "mini"}); without that file it is hermes.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from .env import Play, Reply, Task, Tool


@dataclass
class Trace:
    """One play of a task. `ids` are all its tokens; `mask` is 1 on those that the model said, and
    `logprobs` theirs (0 elsewhere), all of one length."""

    task: str
    seed: int
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    reward: float | None = None
    fields: dict[str, float] = field(default_factory=dict)
    turns: int = 0
    why: str = ""  # how it ended: done, cut (too long), silent (no call), turns

    def told(self, ids: list[int]) -> None:
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def said(self, ids: list[int], logprobs: list[float]) -> None:
        self.ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs

    def row(self) -> dict[str, Any]:
        """The trace as a line of plays.jsonl."""
        return {"task": self.task, "seed": self.seed, "reward": self.reward, "why": self.why, "turns": self.turns, "ids": self.ids, "mask": self.mask,
                "logprobs": [round(x, 5) for x in self.logprobs], "calls": self.calls, "fields": self.fields}


class Dialect(Protocol):
    """See the module. One object an episode: it may remember what it has shown."""

    stop: list[int]  # tokens that end a model's turn

    def begin(self, task: Task, tools: list[Tool]) -> list[int]: ...

    def act(self, text: str, play: Play) -> tuple[list[tuple[str, dict[str, Any]]], str, Reply | None]:
        """Carries out what a turn asked for: the calls, what the model is told of their results, and the reply that ended the episode."""
        ...

    def answer(self, text: str) -> list[int]: ...


class Hermes:
    """Chat templates and <tool_call>; see the module."""

    asks = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.S)

    def __init__(self, tokenizer: Any) -> None:
        self.tok = tokenizer
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self.stop = [end if isinstance(end, int) and end != tokenizer.unk_token_id else tokenizer.eos_token_id]

    def begin(self, task: Task, tools: list[Tool]) -> list[int]:
        got = self.tok.apply_chat_template([{"role": "user", "content": task.prompt}], tools=[t.function() for t in tools], add_generation_prompt=True, tokenize=False)
        return list(self.tok(got, add_special_tokens=False)["input_ids"])

    def act(self, text: str, play: Play) -> tuple[list[tuple[str, dict[str, Any]]], str, Reply | None]:
        calls, told = [], []
        for m in self.asks.finditer(text):
            try:
                c = json.loads(m.group(1))
                name, args = c["name"], c.get("arguments") or {}
                if not isinstance(name, str) or not isinstance(args, dict):
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                told.append("not a call: want {\"name\": …, \"arguments\": {…}}")
                continue
            calls.append((name, args))
            r = play.call(name, args)
            if r.done:
                return calls, "", r
            told.append(r.text)
        return calls, "\n".join(f"<tool_response>\n{t}\n</tool_response>" for t in told), None

    def answer(self, text: str) -> list[int]:
        return list(self.tok(f"\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False)["input_ids"])


def dialect(directory: str, tokenizer: Any) -> Dialect:
    """A fresh dialect for one episode of the model in this directory."""
    name = "hermes"
    try:
        with open(os.path.join(directory, "agon.json"), encoding="utf-8") as f:
            name = json.load(f).get("dialect", name)
    except FileNotFoundError:
        pass
    if name == "mini":
        from .mini import Mini

        return Mini(tokenizer)
    if name != "hermes":
        raise ValueError(f"{directory}/agon.json: dialect {name!r} is none of hermes, mini")
    return Hermes(tokenizer)
