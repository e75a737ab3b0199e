#!/usr/bin/env python3
"""Plays a model in an arena, on the problems that a corpus keeps out of training.

    evaluate.py --corpus ./corpus --arena demo-shopping --agent samples/shopping/react/agent.py \\
        --base-url http://127.0.0.1:8000/v1 --model ./model/model --repeat 8

The agent stays the same, only the model changes: run it for the base model, the
fine-tuned one, and the one after GRPO. Prints one line of JSON: {model, arena,
problems, runs, faults, solved, pass_at_1, pass_at_k, cost_micros}. Runs that
failed by a fault of ours count for nobody and are listed as faults.
"""

import argparse
import json
import os
import subprocess
import sys


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus", required=True)
    p.add_argument("--arena", required=True)
    p.add_argument("--agent", required=True, help="file of an agent that asks a model")
    p.add_argument("--base-url", help="OpenAI-compatible server (default: AGON_LLM_BASE_URL; none: the scripted model)")
    p.add_argument("--model", default="", help="name of the model there (default: AGON_LLM_MODEL)")
    p.add_argument("--split", choices=["eval", "held", "train"], default="eval", help="held is for one last look; train measures memory")
    p.add_argument("--repeat", type=int, default=1, help="plays of each problem, for pass@k")
    p.add_argument("--agon", default="agon", help="the binary")
    a = p.parse_args()

    problems = set()
    path = os.path.join(a.corpus, a.split, "rows.jsonl")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                r = json.loads(line)["provenance"]
                if r["arena"] == a.arena:
                    problems.add(r["problem_id"])
    if not problems:
        sys.exit(f"evaluate: no problem of {a.arena} stands in the split {a.split}")
    env = dict(os.environ)
    if a.base_url:
        env["AGON_LLM_BASE_URL"] = a.base_url
        env.setdefault("AGON_LLM_API_KEY", "none")
    if a.model:
        env["AGON_LLM_MODEL"] = a.model
    command = [a.agon, "try", a.agent, "--arena", a.arena, "-o", "json"]
    for t in sorted(problems):
        command += ["--task", t]
    plays, faults, cost = {t: [] for t in problems}, 0, 0
    for _ in range(a.repeat):
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False)
        if done.returncode not in (0, 9):  # 9: some runs failed by a fault of ours
            sys.exit(done.returncode)
        got = json.loads(done.stdout)
        cost += got["cost_micros"]
        for r in got["runs"]:
            if r["state"] == "scored":
                plays[r["task"]].append(bool(r["solved"]))
            else:
                faults += 1
    known = [x for x in plays.values() if x]
    solved = sum(sum(x) for x in known)
    runs = sum(len(x) for x in known)
    print(json.dumps({
        "model": env.get("AGON_LLM_MODEL", "scripted"), "arena": a.arena, "split": a.split, "problems": len(problems), "runs": runs, "faults": faults, "solved": solved,
        "pass_at_1": solved / runs if runs else None, "pass_at_k": sum(any(x) for x in known) / len(known) if known else None, "k": a.repeat, "cost_micros": cost}))


main()
