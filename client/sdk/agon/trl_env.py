"""TRL: an environment for GRPOTrainer's `environment_factory`, and reward functions for plays that were made elsewhere.

    from agon.trl_env import factory
    trainer = GRPOTrainer(model=…, environment_factory=factory("http://127.0.0.1:8010"), train_dataset=dataset("http://127.0.0.1:8010"))

The factory makes a class whose methods are the tools of the environment, with the types and texts of their
schemas; `reset` begins an episode of the row's task and tells its prompt; `get_reward` is what the arena's scorer
says, 0 where the policy never ended the episode.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .env import Client, EnvError, Play, Tool

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


def method(tool: Tool) -> Callable[..., str]:
    """A method of an environment that carries this tool out."""
    props = tool.schema.get("properties") or {}
    required = set(tool.schema.get("required") or [])
    names = sorted(props, key=lambda n: n not in required)  # those without a default first

    def call(self: Any, *args: Any, **kw: Any) -> str:
        given = dict(zip(names, args)) | kw
        return str(self._call(tool.name, {k: v for k, v in given.items() if v is not None}))

    kinds = {n: TYPES.get(str(props[n].get("type")), str) for n in names}
    call.__name__ = call.__qualname__ = tool.name
    call.__annotations__ = {n: k if n in required else k | None for n, k in kinds.items()} | {"return": str}
    lines = "\n".join(f"    {n}: {props[n].get('description') or n.replace('_', ' ')}" for n in names)
    call.__doc__ = f"{tool.description}\n\nArgs:\n{lines}\n\nReturns:\n    What the tool answers.\n" if names else f"{tool.description}\n\nReturns:\n    What the tool answers.\n"
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=call.__annotations__[n], default=inspect.Parameter.empty if n in required else None) for n in names],
        return_annotation=str)
    return call


class _Base:
    """What all environments of a server share; names with _ are no tools."""

    _url = ""

    def __init__(self) -> None:
        self._client = Client(self._url)
        self._play: Play | None = None

    def reset(self, task: str = "", seed: int = 0, **row: Any) -> str | None:
        if self._play is not None:
            self._play.close()
        self._play = self._client.open(task, seed)
        return None  # the row's prompt says it all

    def get_reward(self) -> float:
        last = self._play.last if self._play else None
        if last is None and self._play is not None:
            try:
                last = self._play.call("terminate", {})
            except EnvError:
                last = None
        return float(last.reward or 0.0) if last and last.done else 0.0


def factory(url: str) -> Callable[[], Any]:
    """A zero-argument factory of environments of the server at url."""
    with Client(url) as c:
        tools = c.tools()

    def call(self: Any, name: str, args: dict[str, Any]) -> str:
        try:
            return self._play.call(name, args).text if self._play else "there is no episode"
        except EnvError as e:
            return str(e)  # the episode is over

    body: dict[str, Any] = {t.name: method(t) for t in tools}
    return type("ArenaEnvironment", (_Base,), {**body, "_url": url, "_call": call})


def dataset(url: str, limit: int = 0) -> Any:
    """The server's tasks as a data set of {prompt, task, seed}."""
    import datasets

    with Client(url) as c:
        tasks = c.tasks()
    return datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": t.prompt}], "task": t.key, "seed": 0} for t in tasks[: limit or None]])


def reward(url: str, read: Callable[[str], list[tuple[str, dict[str, Any]]]]) -> Callable[..., list[float]]:
    """A reward function for completions that were sampled without tools: `read` says which calls a completion makes; they are
    carried out in a fresh episode of the row's task. For GRPOTrainer(reward_funcs=…) with a column `task`."""
    client = Client(url)

    def arena(completions: list[Any], task: list[str], **_: Any) -> list[float]:
        out = []
        for c, key in zip(completions, task):
            text = c if isinstance(c, str) else "".join(m.get("content") or "" for m in c)
            with client.open(key) as play:
                for name, args in [*read(text), ("terminate", {})]:
                    last = play.call(name, args)
                    if last.done:
                        break
                out.append(float(last.reward or 0.0))
        return out

    return arena


def grpo(job: dict[str, Any], out: str, log: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """What `agon distill --method grpo` runs."""
    import trl

    from . import train

    net, tok = train.load(job["base"])
    o = job["train"]
    args = train.common(out, o)
    k = max(2, job["k"])
    args["per_device_train_batch_size"] = max(k, o["batch"] // k * k)
    s = job["sampling"]
    config = trl.GRPOConfig(num_generations=k, max_completion_length=min(s["max_tokens"], o["max_length"]), temperature=s["temperature"], loss_type="dr_grpo", **args)
    try:
        t = trl.GRPOTrainer(model=net, processing_class=tok, train_dataset=dataset(job["url"]), environment_factory=factory(job["url"]), peft_config=train.lora(o.get("lora_rank", 0)),
                            args=config, callbacks=[train.trainer_callback(log, "grpo")])
    except ValueError as e:
        if "chat template" not in str(e):
            raise
        raise train.Mistake(f"the base's chat template has no tools, without which grpo cannot play: {e}") from e
    return train.finish(t, tok, job["base"], out, t.train(resume_from_checkpoint=train.resume(args)))
