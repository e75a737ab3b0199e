"""verl: an agent loop that plays an arena.

In the file of `actor_rollout_ref.rollout.agent.agent_loop_config_path`:

    - name: agon
      _target_: agon.verl_loop.ArenaLoop
      url: http://127.0.0.1:8010

Each row of the data set brings `agent_name: agon`, `raw_prompt`, and its `task` (see `rows`), or has it in `extra_info`. The
policy asks with <tool_call>{"name": …, "arguments": {…}}</tool_call>; a turn without a call ends the episode. What the
loss is taken on is what the policy said: tokens are kept as they were sampled, by verl's own builder. The reward
is what the arena's scorer says, 0 where the policy never answered.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from .env import Client, EnvError, Play
from .policy import Hermes


@register("agon")
class ArenaLoop(AgentLoopBase):  # type: ignore[misc]
    """One episode a run."""

    def __init__(self, *args: Any, url: str = "http://127.0.0.1:8010", turns: int = 24, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url, self.turns = url, turns
        self.response_length = self.rollout_config.response_length
        self._reader = Hermes.__new__(Hermes)  # only reads; verl makes the tokens

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        extra = kwargs.get("extra_info") or {}
        task, seed = str(kwargs.get("task") or extra["task"]), int(extra.get("seed") or 0)
        with Client(self.url) as client:
            play = await asyncio.to_thread(client.open, task, seed)
            try:
                return await self._play(play, await asyncio.to_thread(client.tools), list(kwargs["raw_prompt"]), sampling_params)
            finally:
                await asyncio.to_thread(play.close)

    async def _play(self, play: Play, tools: list[Any], said: list[dict[str, Any]], sampling: dict[str, Any]) -> AgentLoopOutput:
        offered = [t.function() for t in tools]
        ids = await self.ct_build_initial_tokens(said, tools=offered)
        mask: list[int] = []
        logp: list[float] = []
        request, last, turns, calls = uuid4().hex, None, 0, 0
        while last is None and turns < self.turns:
            out = await self.server_manager.generate(request_id=request, prompt_ids=ids, sampling_params=sampling)
            turns += 1
            merged, mask, got = await self.ct_merge_assistant_token(ids, out.token_ids, mask, logp if logp or out.log_probs else None, assistant_logprobs=out.log_probs or None)
            ids, logp = merged.token_ids, got or []
            if len(mask) >= self.response_length:
                break
            text = self.tokenizer.decode(out.token_ids, skip_special_tokens=True)
            try:
                asked, told, last = await asyncio.to_thread(self._reader.act, text, play)
            except EnvError as e:
                if e.code != "episode_finished":
                    raise
                asked, told, last = [], "", play.last
            calls += len(asked)
            if last is not None or not told:
                break
            before = [*said, {"role": "assistant", "content": text}]
            said = [*before, {"role": "user", "content": told}]
            merged, wider, got = await self.ct_merge_context_msg(before, said, ids, mask, logp or None, tools=offered)
            if len(wider) >= self.response_length:
                break
            ids, mask, logp = merged.token_ids, wider, got or []
        if last is None and any(t.name == "terminate" for t in tools):
            last = await asyncio.to_thread(play.call, "terminate", {})
        n, most = len(mask), self.response_length
        return AgentLoopOutput(
            prompt_ids=ids[: len(ids) - n], response_ids=ids[len(ids) - n :][:most], response_mask=mask[:most], response_logprobs=logp[:most] or None, num_turns=2 * turns,
            reward_score=float(last.reward or 0.0) if last else 0.0, metrics=AgentLoopMetrics(), extra_fields={"turn_scores": [], "tool_rewards": [], "calls": calls})


def rows(url: str) -> list[dict[str, Any]]:
    """The server's tasks in the form of verl's data sets."""
    with Client(url) as c:
        return [{"prompt": [{"role": "user", "content": t.prompt}], "agent_name": "agon", "data_source": "agon", "task": t.key, "extra_info": {"task": t.key, "index": i},
                 "reward_model": {"style": "rule", "ground_truth": ""}} for i, t in enumerate(c.tasks())]
