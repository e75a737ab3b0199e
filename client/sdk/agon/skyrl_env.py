"""SkyRL: an arena as a text environment of SkyRL-Gym, which SkyRL's generator plays.

    import agon.skyrl_env
    agon.skyrl_env.register("http://127.0.0.1:8010")      # skyrl_gym.make("agon", extras={"task": KEY})

In SkyRL's configuration the environment is named by `env_class: agon`; each row of the data set brings its
`task` (see `rows`). A policy asks with <tool_call>{"name": …, "arguments": {…}}</tool_call>; a turn without a call
ends the episode. The reward is 0 until the episode ends, then what the arena's scorer says.
"""

from __future__ import annotations

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from .env import Client, EnvError, Play
from .policy import Hermes


class ArenaEnv(BaseTextEnv):  # type: ignore[misc]
    """One episode of a task: `extras` has `task`, and may have `url`, `seed` and `max_turns`."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None, url: str = "") -> None:
        super().__init__()
        x = extras or {}
        self.max_turns = int(x.get("max_turns") or 24)
        self._client = Client(x.get("url") or url)
        self._play: Play | None = self._client.open(x["task"], int(x.get("seed") or 0))
        self._reader = Hermes.__new__(Hermes)  # only reads; the trainer makes the tokens
        self.calls = 0

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        if self._play is None:
            raise EnvError("the episode is closed", "episode_finished")
        calls, told, last = self._reader.act(action, self._play)
        self.calls += len(calls)
        if last is None and (not told or self.turns >= self.max_turns):
            last = self._play.call("terminate", {})
        if last is not None:
            return BaseTextEnvStepOutput(observations=[], reward=float(last.reward or 0.0), done=True, metadata=dict(last.fields), postprocessed_action=None)
        return BaseTextEnvStepOutput(observations=[{"role": "user", "content": told}], reward=0.0, done=False, metadata={}, postprocessed_action=None)

    def get_metrics(self) -> dict[str, Any]:
        return {"turns": self.turns, "calls": self.calls}

    def close(self) -> None:
        if self._play is not None:
            self._play.close()
            self._play = None
            self._client.close()


def register(url: str, name: str = "agon") -> None:
    """Makes the environment known to SkyRL-Gym under a name."""
    skyrl_gym.register(id=name, entry_point="agon.skyrl_env:ArenaEnv", kwargs={"url": url})


def rows(url: str, name: str = "agon") -> list[dict[str, Any]]:
    """The server's tasks in the form of SkyRL's data sets."""
    with Client(url) as c:
        tools = "\n".join(f"- {t.name}: {t.description} Arguments: {t.schema}" for t in c.tools())
        ask = f"You may call tools with <tool_call>{{\"name\": …, \"arguments\": {{…}}}}</tool_call>:\n{tools}"
        return [{"prompt": [{"role": "system", "content": ask}, {"role": "user", "content": t.prompt}], "env_class": name, "task": t.key} for t in c.tasks()]
