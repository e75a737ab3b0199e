"""Trained models enter an arena by the ordinary path, each against the rule-based sample that sits there.

Each model stands behind OpenAI's chat completions (agon.door); the agent that enters asks it through the arena's gateway
and carries out what it says. An arena a seed: the sample is entered and seated, then the model's agent is entered, both
by `agon key`, `agon ledger register` and `agon submission submit`. The arena's own rule decides.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from . import distill, mini

ARENA = """id = "wheel-{i}"
kind = "shopping"
title = "The wheel, seed {seed}"
netuid = {netuid}
licence = "MIT"
incentive = "paired"
sets = [{tasks}]
samples = false

[judge] # titles are compared by their spelling, reasoning is judged by rule
demo = true

[incentive_numbers]
agree = 1
max_pairs = 200
validators = 1

[policy]
models = ["*"]
tools = ["find_product", "view_product_information"]

[policy.agent]
wall_ms = 600000
memory_bytes = 536870912
pids = 64
disk_bytes = 268435456

[policy.budget]
micros = 2000000
calls = 5000
"""

HEAD = '''"""A small model shops: it says `find a b c` and `take 1`, and this code carries that out. Made by agon.enter."""

from __future__ import annotations

import re
from os import getenv

from src.agent.agent_interface import Tool, create_dialogue_step, execute_tool_call
from src.agent.proxy_client import ProxyClient

client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=2)
'''

LOOP = '''
@Tool
def find_product(**args):
    args.setdefault("page", 1)
    return client.get("/search/find_product", args) or []


@Tool
def recommend_product(product_ids):
    return f"Having recommended the products to the user: {product_ids}."


@Tool
def terminate(status="success"):
    return f"The interaction has been completed with status: {status}"


def agent_main(problem_data):
    query, steps, found = problem_data["query"], [], []
    wanted = parts(query)
    said = [{"role": "user", "content": wish(wanted)}]

    def act(think, *calls):
        done = [execute_tool_call(name, args) for name, args in calls]
        steps.append(create_dialogue_step(think, done, "", query, len(steps) + 1))
        return done[0]["result"]

    for _ in range(TURNS):
        reply = client.post("/inference/chat/completions", {"model": MODEL, "temperature": 0, "max_tokens": 16, "messages": said})
        text = ((reply or {}).get("choices") or [{"message": {"content": ""}}])[0]["message"]["content"] or ""
        text, answer = text.strip(), "none"
        take = re.fullmatch(r"take\\s*(\\d)", text)
        if text.startswith("find "):
            found = act(text, ("find_product", search([p for x, p in zip(LETTERS, wanted) if x in text.split()[1:]])))
            answer = shown(found)
        elif take and 1 <= int(take[1]) <= len(found[:SHOWN]):
            act(text, ("recommend_product", {"product_ids": found[int(take[1]) - 1]["product_id"]}), ("terminate", {"status": "success"}))
            return steps
        said += [{"role": "assistant", "content": text}, {"role": "tool", "tool_call_id": "1", "content": answer}]
    act("", ("terminate", {"status": "failure"}))
    return steps
'''


def agent(model: str, turns: int = 3) -> str:
    """The agent that plays as agon.mini does, with this model of the gateway, in one file."""
    names = {"LETTERS": mini.LETTERS, "SHOWN": mini.SHOWN, "SERVICES": mini.SERVICES, "MODEL": model, "TURNS": turns}
    values = [f"{k} = {v!r}" for k, v in names.items()] + [f"{k} = re.compile({getattr(mini, k).pattern!r})" for k in ("CODE", "PRICE")]
    parts = [inspect.getsource(f) for f in (mini.parts, mini.wish, mini.shown, mini.search, mini.service)]
    return HEAD + "\n" + "\n".join(values) + "\n\n\n" + "\n\n".join(parts) + "\n" + LOOP


@contextmanager
def process(argv: list[str], pattern: str, log: str, env: dict[str, str] | None = None) -> Iterator[str]:
    """A process as long as the block; yields what the pattern's first group matches in what it prints."""
    found, ready = [""], threading.Event()
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env = {"PYTHONPATH": os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH")))), **(env or {})}
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **env}, preexec_fn=distill.leashed)

    def read() -> None:
        assert p.stdout is not None
        with open(log, "w", encoding="utf-8") as f, p.stdout:
            for line in p.stdout:
                f.write(line)
                f.flush()
                m = re.search(pattern, line)
                if m and not found[0]:
                    found[0] = m[1]
                    ready.set()
        ready.set()

    t = threading.Thread(target=read)
    t.start()
    try:
        ready.wait()
        if not found[0]:
            raise SystemExit(f"{argv[0]} ended; {log} has what it said")
        yield found[0]
    finally:
        p.terminate()
        p.wait()
        t.join()


def contest(agon: str, out: str, champion: str, models: dict[int, str], tasks: str, catalogue: str, minutes: int = 30) -> list[dict[str, Any]]:
    """Enters the model of each seed in an arena of these tasks in which the agent of the file `champion` sits.
    Returns one decision a seed: {seed, taken, state, outcome, rule, numbers, sentence, champion, model}."""
    os.makedirs(out, exist_ok=True)
    with ExitStack() as open_:
        upstreams = ""
        for seed, directory in models.items():
            url = open_.enter_context(process([sys.executable, "-m", "agon.door", directory, "--listen", "127.0.0.1:0", "--threads", "1"], r'"url": "([^"]+)"', os.path.join(out, f"door-{seed}.log")))
            upstreams += f'[[upstream]]\nname = "seed-{seed}"\nbase_url = "{url}"\nkey = "none"\nmodels = ["wheel-{seed}"]\n\n'
        names = os.path.join(out, "upstreams.toml")
        with open(os.open(names, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write(upstreams)
        argv = [agon, "up", "--data", os.path.join(out, "data"), "--listen", "127.0.0.1:0", "-o", "json"]
        for i, seed in enumerate(models):
            file = os.path.join(out, f"wheel-{seed}.toml")
            with open(file, "w", encoding="utf-8") as f:
                f.write(ARENA.format(i=seed, seed=seed, netuid=11 + i, tasks=json.dumps(tasks)))
            with open(os.path.join(out, f"agent-{seed}.py"), "w", encoding="utf-8") as f:
                f.write(agent(f"wheel-{seed}"))
            argv += ["--arena", file]
        url = open_.enter_context(process(argv, r"agon is up at (http://[0-9.:]+)", os.path.join(out, "up.log"), {
            "AGON_SHOP_CATALOGUE": catalogue, "AGON_LLM_UPSTREAMS": names, "AGON_LLM_PRICE_IN": "1", "AGON_LLM_PRICE_OUT": "1"}))

        def run(*args: str, wallet: str, may: tuple[int, ...] = (0,)) -> Any:
            p = subprocess.run([agon, *args, "--url", url, "--wallet.path", os.path.join(out, "wallets"), "--wallet.name", wallet, "--wallet.hotkey", "default", "-o", "json"],
                               capture_output=True, text=True)
            if p.returncode not in may:
                raise SystemExit(f"agon {' '.join(args)}: exit code {p.returncode}: {p.stderr}{p.stdout}")
            return json.loads(p.stdout)

        def enter(seed: int, who: str, file: str, wait: str) -> Any:
            wallet = f"{who}-{seed}"
            if not os.path.isdir(os.path.join(out, "wallets", wallet)):
                run("key", "new", "default", wallet=wallet)
            run("ledger", "register", "--arena", f"wheel-{seed}", wallet=wallet)
            return run("submission", "submit", file, "--name", who, "--arena", f"wheel-{seed}", f"--wait={wait}", wallet=wallet, may=(0, 7, 8))

        result = []
        for seed in models:
            enter(seed, "rules", champion, "0s")
        sits = {seed: enter(seed, "rules", champion, f"{minutes}m") for seed in models}
        for seed in models:
            enter(seed, "model", os.path.join(out, f"agent-{seed}.py"), "0s")
        for seed in models:
            got = enter(seed, "model", os.path.join(out, f"agent-{seed}.py"), f"{minutes}m")
            decision = got.get("decision") or {}
            result.append({
                "seed": seed, "taken": decision.get("outcome") == "took_seat", "state": got["state"], **{k: decision.get(k) for k in ("outcome", "rule", "numbers", "sentence")},
                **{k: {f: s.get(f) for f in ("score", "solved", "total")} for k, s in (("champion", sits[seed]), ("model", got))},
            })
        return result
