"""What `agon distill` runs: samples plays, keeps what the rule of rewards keeps, trains, and measures
base and trained model on the same held-out tasks. The job comes as JSON on stdin, events and the report go
as JSON lines to stdout. Every stage leaves a file below OUT; a stage whose file is there is not done again.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection
from typing import Any

from .env import Client, Task
from .stats import difference, interval, paired_p, pass_at
from .train import Mistake

LIBC = ctypes.CDLL(None)
CHUNK = 64  # plays between two writes of plays.jsonl


def log(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def leashed() -> None:
    """For Popen's preexec_fn: the child ends when this process does, however that ends (Linux)."""
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def follow(parent: int) -> None:
    """Ends this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def tasks(url: str) -> list[Task]:
    with Client(url) as c:
        return c.tasks()


def write(path: str, text: str) -> None:
    """Whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def digest(path: str) -> str:
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            h.update(block)
    return h.hexdigest()


def sampled(job: dict[str, Any], policy: Any, stage: str, url: str, path: str, k: int, temperature: float, measured: bool = False) -> list[dict[str, Any]]:
    """k plays of every task at url, in the file at path; those that are in it already are not played again. Of plays that
    are measured no tokens are kept: what a held task says does not stand in what distill leaves behind."""
    from .rollout import Sampling, play

    rows: list[dict[str, Any]] = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    break  # the line that was being written when it stopped
        write(path, "".join(json.dumps(r) + "\n" for r in rows))
    have = {(r["task"], r["seed"]) for r in rows}
    todo = [(t, seed) for seed in range(k) for t in tasks(url) if (t.key, seed) not in have]
    s = Sampling(temperature=temperature, seed=job["train"]["seed"], **{n: v for n, v in job["sampling"].items() if n != "temperature"})
    total = len(rows) + len(todo)
    with open(path, "a", encoding="utf-8") as f:
        for at in range(0, len(todo), CHUNK):
            for t in play(policy(), url, todo[at : at + CHUNK], s):
                rows.append({n: v for n, v in t.row().items() if not measured or n not in ("ids", "mask", "logprobs")})
                f.write(json.dumps(rows[-1]) + "\n")
            f.flush()
            log({"stage": stage, "step": len(rows), "of": total})
    return rows


def told(job: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The rows of a corpus or a file of plays as tokens of the base, with their rewards; and how many there were."""
    from transformers import AutoTokenizer

    tok = AutoTokenizer.from_pretrained(job["base"])
    out, n = [], 0
    with open(job["rows"], encoding="utf-8") as f:
        for line in f:
            r = json.loads(line)
            where = r.get("provenance") or {}
            if job["corpus"] and job["arena"] and where.get("arena") != job["arena"] or where.get("scripted") and not job["scripted"]:
                continue
            n += 1
            reward = r.get("reward")
            if isinstance(reward, dict):
                reward = reward.get("outcome")
            steps = r.get("steps") or []
            if not teaches(job["method"], [s.get("loss_mask", True) for s in steps]):
                continue
            unsaid = {s["step"] for s in steps if not s.get("loss_mask", True)}
            ids, mask = conversation(tok, r["messages"], r.get("tools"), unsaid)
            out.append({"task": where.get("problem_id") or r.get("task", ""), "reward": reward, "ids": ids, "mask": mask})
    return out, n


def teaches(method: str, marks: list[bool]) -> bool:
    """Whether a row with these marks of the assistant's turns can be trained on: a model said one of them and, where the trainer
    knows no marks but takes all that follows a model's first word (kto, dpo), the agent's code none after that. corpus/distill/plan.go
    has the same."""
    if not any(marks):
        return not marks  # a file of plays has no steps: a model said all
    return method not in ("kto", "dpo") or all(marks[marks.index(True) :])


def conversation(tok: Any, messages: list[dict[str, Any]], tools: list[Any] | None, unsaid: Collection[int] = ()) -> tuple[list[int], list[int]]:
    """Tokens of a conversation by the base's own chat template, and the mask of what the assistant said; but for the messages at
    the places unsaid, which an agent's code put there. A template that tells an earlier turn otherwise once a later one is there
    cannot be trained on so: Mistake."""
    ids: list[int] = []
    mask: list[int] = []
    text = ""
    tools = [t if "function" in t else {"type": "function", "function": t} for t in tools] if tools else None
    for i, m in enumerate(messages):
        if m["role"] != "assistant":
            continue
        before = tok.apply_chat_template(messages[:i], tools=tools, add_generation_prompt=True, tokenize=False)
        after = tok.apply_chat_template(messages[: i + 1], tools=tools, tokenize=False)
        if not before.startswith(text) or not after.startswith(before):
            raise Mistake("the chat template of the base tells earlier turns otherwise once later ones are there: train on it with qwen3.jsonl and docs/examples/distill")
        for piece, said in ((before[len(text) :], 0), (after[len(before) :].rstrip("\n"), int(i not in unsaid))):
            got = tok(piece, add_special_tokens=False)["input_ids"]
            ids += got
            mask += [said] * len(got)
        text = before + after[len(before) :].rstrip("\n")
    return ids, mask


def keeps(method: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rule of rewards; corpus/distill/plan.go has the same."""
    if method in ("sft", "rft"):
        return [r for r in rows if r["reward"] is not None and r["reward"] >= 1]
    known = [r for r in rows if r["reward"] is not None]
    if method != "dpo":
        return [dict(r, label=r["reward"] >= 1) for r in known]
    pairs = []
    for task in dict.fromkeys(r["task"] for r in known):
        good = [r for r in known if r["task"] == task and r["reward"] >= 1]
        bad = [r for r in known if r["task"] == task and r["reward"] < 1]
        pairs += [{"chosen": g, "rejected": b} for g, b in zip(good, bad)]
    return pairs


def distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a task that say the same are one row."""
    seen: set[tuple[str, tuple[int, ...]]] = set()
    out = []
    for r in rows:
        key = (r["task"], tuple(r["ids"]))
        if key not in seen:
            seen.add(key)
            out.append(r)
    return out


def audit(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the plays did, where a scorer may be pleased and a person not: answers without a look, calls that only repeat,
    one answer for many tasks, how plays ended."""
    solved = [r for r in rows if r["reward"] == 1]
    blind = [r for r in solved if len({json.dumps(c[1], sort_keys=True) for c in r["calls"]}) < 3]
    answers = Counter(json.dumps(r["calls"][-2:], sort_keys=True) for r in rows if len(r["calls"]) > 1)
    return {
        "plays": len(rows), "solved": len(solved), "solved_without_a_look": len(blind), "ended": dict(Counter(r["why"] for r in rows)),
        "calls": round(sum(len(r["calls"]) for r in rows) / max(1, len(rows)), 2), "repeated_calls": sum(len(r["calls"]) - len({json.dumps(c, sort_keys=True) for c in r["calls"]}) for r in rows),
        "same_answer": round(max(answers.values(), default=0) / max(1, len(rows)), 3), "tools": dict(Counter(c[0] for r in rows for c in r["calls"])),
    }


def figure(rows: list[dict[str, Any]], k: int) -> dict[str, Any]:
    first = [r for r in rows if r["seed"] == 0]
    n = sum(r["reward"] == 1 for r in first)
    by: dict[str, list[bool]] = {}
    for r in rows:
        by.setdefault(r["task"], []).append(r["reward"] == 1)
    return {"solved": n, "rate": n / max(1, len(first)), "interval": interval(n, len(first)), "pass_at_k": pass_at(list(by.values()), k) if k > 1 else None, "audit": audit(rows)}


def grpo(job: dict[str, Any], out: str) -> dict[str, Any]:
    from .trl_env import grpo as run

    return run(job, out, log)


def work(job: dict[str, Any]) -> dict[str, Any]:
    import torch

    if job["threads"]:
        torch.set_num_threads(job["threads"])
    out, method = job["out"], job["method"]
    held = {t.key for t in tasks(job["held_url"])} if job["held_url"] else set()
    models: dict[str, Any] = {}

    def policy(directory: str) -> Any:
        def get() -> Any:
            if directory not in models:
                from .rollout import Local

                models.clear()
                models[directory] = Local(directory)
            return models[directory]

        return get

    trained = os.path.join(out, "model")
    state = os.path.join(out, "trained.json")
    if os.path.exists(state):
        with open(state, encoding="utf-8") as f:
            done = json.load(f)
    else:
        if method == "grpo":
            done = {**grpo(job, out), "rows": len(tasks(job["url"])) * job["k"], "kept": len(tasks(job["url"])) * job["k"], "contaminated": 0}
        else:
            if method == "rft":
                rows = sampled(job, policy(job["base"]), "plays", job["url"], os.path.join(out, "plays.jsonl"), job["k"], job["sampling"]["temperature"])
                n = len(rows)
            else:
                rows, n = told(job)
            clean = [r for r in rows if r["task"] not in held]
            kept = keeps(method, distinct([r for r in clean if len(r["ids"]) <= job["train"]["max_length"]]))
            if not kept:
                raise Mistake(f"none of {n} rows is kept by the rule of {method}: the base solves nothing of this yet; train it on plays of others first (sft)")
            from .train import run

            models.clear()
            done = {**run(method, job["base"], kept, out, job["train"], log), "rows": n, "kept": len(kept), "contaminated": n - len(clean)}
        write(state, json.dumps(done))
    report: dict[str, Any] = {"method": method, "arena": job["arena"], "base": job["base"], "model": trained, "k": job["k"], "held_out": len(held), "before": None, "after": None, "gain": None, "p": None, **done}
    if held:
        played = {}
        for name, where in (("before", job["base"]), ("after", trained)):
            # One greedy play a task for the pairs.
            played[name] = sampled(job, policy(where), name, job["held_url"], os.path.join(out, f"{name}.jsonl"), 1, 0, measured=True)
            report[name] = figure(played[name], 1)
        b, a = ({r["task"]: r["reward"] == 1 for r in played[x]} for x in ("before", "after"))
        keys = sorted(held)
        report["gain"] = difference([b[t] for t in keys], [a[t] for t in keys])
        report["p"] = paired_p([b[t] for t in keys], [a[t] for t in keys])
    from .report import card, markdown

    write(os.path.join(trained, "README.md"), card(report, job))
    write(os.path.join(out, "report.md"), markdown(report))
    files = [os.path.join(d, f) for d in (out, trained) for f in sorted(os.listdir(d)) if os.path.isfile(os.path.join(d, f)) and not f.startswith(".") and f not in ("report.json", "artifacts.jsonl")]
    report["artifacts"] = {os.path.relpath(f, out): digest(f) for f in files}
    write(os.path.join(out, "report.json"), json.dumps(report, indent=1))
    with open(os.path.join(out, "artifacts.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps({"at": int(time.time()), "artifacts": report["artifacts"]}) + "\n")
    return report


def main() -> None:
    threading.Thread(target=follow, args=(os.getppid(),), daemon=True).start()
    # Libraries speak to stdout, too: they are sent to stderr.
    global log
    out, sys.stdout = sys.stdout, sys.stderr

    def log(event: dict[str, Any]) -> None:  # noqa: F811
        out.write(json.dumps(event) + "\n")
        out.flush()

    try:
        log({"report": work(json.load(sys.stdin))})
    except Mistake as e:
        log({"mistake": str(e)})
        sys.exit(1)


if __name__ == "__main__":
    main()
