"""verifiers 0.4 (`verifiers.v1`): an arena as a taskset with the harness that plays it.

    eval agon --env.taskset.base-url http://127.0.0.1:8010 --env.agent.runtime.type subprocess -m MODEL

The id is `agon`: the package exports both classes. The harness asks the model of the run with the tools of the
environment, in OpenAI's form, through verifiers' own interception, so that its trace has every token; it needs no
program in the runtime. The reward `arena` is what the arena's scorer says, 0 where the policy never answered.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult

from .env import Client, EnvError


class ArenaData(vf.TaskData):
    base_url: str
    key: str
    seed: int = 0


class ArenaConfig(vf.TasksetConfig):
    base_url: str = "http://127.0.0.1:8010"
    """The environment server (`agon env serve`)."""
    limit: int = 0
    """Tasks at most; 0 is all."""
    seed: int = 0


class ArenaTask(vf.Task[ArenaData]):
    @vf.reward
    async def arena(self, trace: vf.Trace) -> float:
        return float((trace.info.get("arena") or {}).get("reward") or 0.0)

    @vf.metric
    async def calls(self, trace: vf.Trace) -> float:
        return float((trace.info.get("arena") or {}).get("calls") or 0)


class ArenaTaskset(vf.Taskset[ArenaTask, ArenaConfig]):
    def load(self) -> Iterator[ArenaTask]:
        c = self.config
        with Client(c.base_url) as client:
            for t in client.tasks()[: c.limit or None]:
                yield ArenaTask(ArenaData(id=t.key, name=t.key, prompt=t.prompt, base_url=c.base_url, key=t.key, seed=c.seed), c.task)


class ArenaHarnessConfig(vf.HarnessConfig):
    turns: int = 24
    """Replies of the model in an episode, at most."""


class ArenaHarness(vf.Harness[ArenaHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx: Any, trace: vf.Trace, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: Any, **_: Any) -> ProgramResult:
        system, prompt = self.resolve_text_prompt(data)
        said: list[dict[str, Any]] = [{"role": r, "content": t} for r, t in (("system", system), ("user", prompt)) if t]
        return await asyncio.to_thread(self._play, ctx.model, trace, endpoint, secret, data, said)

    def _play(self, model: str, trace: vf.Trace, endpoint: str, secret: str, data: Any, said: list[dict[str, Any]]) -> ProgramResult:
        note: dict[str, Any] = {"reward": 0.0, "calls": 0, "fields": {}}
        trace.info["arena"] = note
        with Client(data.base_url) as client, client.open(data.key, data.seed) as play:
            tools = client.tools()
            offered = [t.function() for t in tools]
            last = None
            try:
                for _ in range(self.config.turns):
                    m = ask(endpoint, secret, {"model": model, "messages": said, "tools": offered})
                    said.append({k: m[k] for k in ("role", "content", "tool_calls") if m.get(k) is not None} | {"role": "assistant"})
                    asked = m.get("tool_calls") or []
                    for c in asked:
                        f = c.get("function") or {}
                        note["calls"] += 1
                        try:
                            args = json.loads(f.get("arguments") or "{}")
                            r = play.call(str(f.get("name")), args if isinstance(args, dict) else {"arguments": args})
                            text, last = r.text, r if r.done else None
                        except ValueError as e:  # what a policy says wrongly, it is told
                            text = f"the arguments are not JSON: {e}"
                        said.append({"role": "tool", "tool_call_id": c.get("id"), "content": text})
                        if last:
                            break
                    if last or not asked:
                        break
            except urllib.error.HTTPError as e:  # the run's own limits say so, too
                return ProgramResult(1, "", f"the model's endpoint: {e.code} {e.read(300).decode(errors='replace')}")
            finally:
                if last is None and any(t.name == "terminate" for t in tools):
                    try:
                        last = play.call("terminate", {})
                    except EnvError:
                        last = play.last
                if last:
                    note["reward"], note["fields"] = float(last.reward or 0.0), dict(last.fields)
        return ProgramResult(0, "", "")


def ask(endpoint: str, secret: str, body: dict[str, Any]) -> dict[str, Any]:
    """One reply of the model, in OpenAI's form."""
    req = urllib.request.Request(endpoint.rstrip("/") + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json", "Authorization": "Bearer " + secret})
    with urllib.request.urlopen(req) as r:
        return dict(json.load(r)["choices"][0]["message"])
