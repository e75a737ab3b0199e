"""The flywheel: a small base is trained on the champion's plays (SFT), then on its own best ones (RFT), and measured in
pairs on tasks that it never saw. `make flywheel` runs it; docs/training.md has what came of it.

    python -m agon.wheel --agon bin/agon --out DIR

Everything is made here: two catalogues (one for words to train the base on, one to shop in), tasks whose answers differ
between training and measuring (--pool), the base, the champion's plays. A stage that is whole is not made again.
Writes OUT/flywheel.json: {base, sft, rft, n, p, held_out, …}; base, sft and rft are shares of held-out tasks solved, the mean
over seeds; p is the largest of the seeds' exact paired p-values of rft against base. OUT/flywheel.svg shows them. With
--champion FILE each seed's model then enters an arena in which the agent of that file sits (agon.enter): `arena` has the decisions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import distill, enter, mini, report
from .env import Client
from .stats import difference, paired_p


def say(event: dict[str, Any]) -> None:
    print(json.dumps({"s": round(time.process_time()), **event}), file=sys.stderr, flush=True)


def catalogues(agon: str, out: str, words: int = 3000, shop: int = 6000) -> None:
    """words.jsonl, to train on, and shop.jsonl with its index, to shop in, each of so many products."""
    for name, products, seed in (("words", words, 77), ("shop", shop, 33)):
        f = os.path.join(out, name + ".jsonl")
        if not os.path.exists(f):
            subprocess.run([agon, "shop", "generate", "--products", str(products), "--seed", str(seed), "--out", f, "-o", "json"], check=True, stdout=subprocess.DEVNULL)
    index = os.path.join(out, "shop.index")
    if not os.path.exists(index):
        subprocess.run([agon, "shop", "index", os.path.join(out, "shop.jsonl"), "--out", index, "-o", "json"], check=True, stdout=subprocess.DEVNULL)


def made(agon: str, out: str, name: str, pool: int, seed: int, count: int) -> str:
    """A directory of count easy Product tasks in ASCII."""
    d = os.path.join(out, name)
    if os.path.exists(d + ".done"):
        return d
    shutil.rmtree(d, ignore_errors=True)
    subprocess.run([agon, "shop", "problems", os.path.join(out, "shop.index"), "--count", str(count * 3 // 2 + 20), "--seed", str(seed), "--only", "Product/easy", "--plain", "--pool", f"{pool}/2",
                    "--tasks", d, "-o", "json"], check=True, stdout=subprocess.DEVNULL)
    kept = 0
    for t in sorted(os.listdir(d)):
        with open(os.path.join(d, t, "environment", "problem.json"), encoding="utf-8") as f:
            fits = json.load(f)["query"].isascii() and kept < count
        kept += fits
        if not fits:
            shutil.rmtree(os.path.join(d, t))
    open(d + ".done", "w").close()
    return d


@contextmanager
def served(agon: str, out: str, tasks: str) -> Iterator[str]:
    """`agon env serve` over a directory of tasks, as long as the block."""
    env = dict(os.environ, AGON_SHOP_CATALOGUE=os.path.join(out, "shop.jsonl"))
    p = subprocess.Popen([agon, "env", "serve", "--tasks", tasks, "--listen", "127.0.0.1:0", "-o", "json"], env=env, stdout=subprocess.PIPE, preexec_fn=distill.leashed)
    try:
        assert p.stdout is not None
        line = p.stdout.readline()
        if not line:
            raise SystemExit(f"agon env serve ended with {p.wait()}")
        yield json.loads(line)["url"]
    finally:
        p.send_signal(signal.SIGINT)
        p.wait()


def champion(url: str, path: str, n: int) -> float:
    """The champion's plays of the first n tasks as rows; returns the share that it solved."""
    solved = 0.0
    rows = []
    with Client(url) as c:
        for t in c.tasks()[:n]:
            with c.open(t.key) as play:
                said: list[dict[str, str]] = [{"role": "user", "content": mini.wish(mini.parts(t.prompt))}]
                for turn, told in mini.Champion().turns(t, play):
                    said.append({"role": "assistant", "content": turn})
                    if told:
                        said.append({"role": "tool", "content": told})
                reward = play.last.reward if play.last else 0.0
            solved += reward or 0.0
            rows.append(json.dumps({"task": t.key, "reward": reward, "messages": said}) + "\n")
    distill.write(path, "".join(rows))
    return solved / max(1, len(rows))


def turn(a: argparse.Namespace, seed: int, train: str, held: str) -> dict[str, Any]:
    """One turn of the wheel with one seed: {base, sft, rft, p, …}."""
    out = os.path.join(a.out, f"seed-{seed}")
    os.makedirs(out, exist_ok=True)
    base = a.base or os.path.join(a.out, "base")
    rows = os.path.join(out, "champion.jsonl")
    with open(os.path.join(a.out, "champion.jsonl"), encoding="utf-8") as f:
        distill.write(rows, "".join(random.Random(seed).sample(f.readlines(), a.demos)))  # a seed draws its own plays to learn from
    job: dict[str, Any] = {"arena": "mini shopping", "url": train, "held_url": held, "corpus": False, "scripted": False, "threads": a.threads, "k": a.plays,
                           "sampling": {"temperature": 1.0, "turn_tokens": 16, "max_tokens": 200, "turns": 3, "batch": 64}}
    learn = {"learning_rate": a.rate, "batch": 16, "max_length": 200, "lora_rank": 0, "seed": seed, "log_steps": 5}
    distill.log = say
    got: dict[str, Any] = {}
    for method, start, o in (("sft", base, {"epochs": a.epochs}), ("rft", os.path.join(out, "sft", "model"), {"epochs": 2, "learning_rate": a.rate / 2})):
        d = os.path.join(out, method)
        os.makedirs(d, exist_ok=True)
        if os.path.exists(os.path.join(d, "report.json")):
            with open(os.path.join(d, "report.json"), encoding="utf-8") as f:
                got[method] = json.load(f)
            continue
        # The base is the same for every seed, and rft begins with what sft ended with: greedy plays are played once.
        known = os.path.join(a.out, "base.jsonl") if method == "sft" else os.path.join(out, "sft", "after.jsonl")
        if os.path.exists(known):
            shutil.copy(known, os.path.join(d, "before.jsonl"))
        got[method] = distill.work({**job, "method": method, "base": start, "out": d, "rows": rows, "train": {**learn, **o}})
        if method == "sft":
            shutil.copy(os.path.join(d, "before.jsonl"), os.path.join(a.out, "base.jsonl"))
        say({"stage": method, "seed": seed, "before": got[method]["before"]["rate"], "after": got[method]["after"]["rate"], "p": got[method]["p"], "kept": got[method]["kept"]})
    plays = {n: distill_rows(p) for n, p in (("base", os.path.join(out, "sft", "before.jsonl")), ("sft", os.path.join(out, "sft", "after.jsonl")), ("rft", os.path.join(out, "rft", "after.jsonl")))}
    keys = sorted(plays["base"])
    b, r = [plays["base"][k] for k in keys], [plays["rft"][k] for k in keys]
    s = [plays["sft"][k] for k in keys]
    return {"seed": seed, "base": sum(b) / len(b), "sft": sum(s) / len(s), "rft": sum(r) / len(r), "p": paired_p(b, r), "p_rft_sft": paired_p(s, r), "gain": difference(b, r),
            "kept": {m: got[m]["kept"] for m in got}, "rows": {m: got[m]["rows"] for m in got}, "audit": {m: got[m]["after"]["audit"] for m in got}}


def entered(a: argparse.Namespace, held: str) -> list[dict[str, Any]]:
    """The decisions of the arenas that the trained models enter; none without --champion."""
    if not a.champion:
        return []
    done = os.path.join(a.out, "arena.json")
    if not os.path.exists(done):
        models = {s: os.path.join(a.out, f"seed-{s}", "rft", "model") for s in range(1, a.seeds + 1)}
        got = enter.contest(os.path.abspath(a.agon) if os.sep in a.agon else a.agon, os.path.join(a.out, "arena"), a.champion, models, held, os.path.join(a.out, "shop.jsonl"))
        distill.write(done, json.dumps(got, indent=1))
    with open(done, encoding="utf-8") as f:
        out: list[dict[str, Any]] = json.load(f)
    for d in out:
        say({"stage": "arena", **{k: d[k] for k in ("seed", "taken", "sentence")}})
    return out


def distill_rows(path: str) -> dict[str, bool]:
    with open(path, encoding="utf-8") as f:
        return {r["task"]: r["reward"] == 1 for r in map(json.loads, f)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--agon", default="agon", help="the binary")
    p.add_argument("--out", required=True)
    p.add_argument("--base", default="", help="a base that stands already (default: one is made and trained)")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--steps", type=int, default=80, help="of the base's first training")
    p.add_argument("--train", type=int, default=100, help="tasks to train on")
    p.add_argument("--held", type=int, default=120, help="tasks to measure by")
    p.add_argument("--demos", type=int, default=4, help="plays of the champion that SFT is shown")
    p.add_argument("--plays", type=int, default=6, help="plays a task that RFT samples")
    p.add_argument("--epochs", type=float, default=2, help="of SFT")
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--champion", default="", help="file of an agent: the trained models enter arenas in which it sits")
    p.add_argument("--threads", type=int, default=0)
    a = p.parse_args()
    begun = time.time()
    a.out = os.path.abspath(a.out)
    os.makedirs(a.out, exist_ok=True)
    catalogues(a.agon, a.out)
    train, held = made(a.agon, a.out, "train", 0, 5, a.train), made(a.agon, a.out, "held-out", 1, 6, a.held)
    if a.threads:
        import torch

        torch.set_num_threads(a.threads)
    if not a.base and not os.path.exists(os.path.join(a.out, "base", "agon.json")):
        say(mini.base(os.path.join(a.out, "words.jsonl"), os.path.join(a.out, "base"), a.steps, 1, log=say))
    with served(a.agon, a.out, train) as t, served(a.agon, a.out, held) as h:
        share = champion(t, os.path.join(a.out, "champion.jsonl"), a.train)
        champ = champion(h, os.path.join(a.out, "champion-held.jsonl"), a.held)
        turns = [turn(a, s, t, h) for s in range(1, a.seeds + 1)]
    mean = {m: sum(x[m] for x in turns) / len(turns) for m in ("base", "sft", "rft")}
    result = {**mean, "n": a.held, "p": max(x["p"] for x in turns), "held_out": a.held, "champion": champ, "champion_demos": share, "spread": {m: [min(x[m] for x in turns), max(x[m] for x in turns)] for m in mean},
              "seeds": turns, "arena": entered(a, held), "seconds": round(time.time() - begun), "cpu_seconds": round(time.process_time())}
    distill.write(os.path.join(a.out, "flywheel.json"), json.dumps(result, indent=1))
    bars = [(m, mean[m], (result["spread"][m][0], result["spread"][m][1])) for m in mean]
    distill.write(os.path.join(a.out, "flywheel.svg"), report.plot([*bars, ("rule-based", champ, (champ, champ))]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
