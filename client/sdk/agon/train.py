"""Trains with TRL on plays as they were sampled: token ids and the mask of what the model said.

What is trained on is checked first: the mask and the ids are of one length, and the labels that
the trainer made of them are those that were marked. Checkpoints are kept, so that a training that
was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


class Mistake(Exception):
    """Something the user can mend; the text says what."""


def trainer_callback(log: Callable[[dict[str, Any]], None], stage: str) -> Any:
    from transformers import TrainerCallback

    class Tell(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kw: Any) -> None:
            if logs and "loss" in logs:
                log({"stage": stage, "step": state.global_step, "of": state.max_steps, "loss": round(float(logs["loss"]), 4)})

    return Tell()


def common(out: str, o: dict[str, Any]) -> dict[str, Any]:
    """The settings that all trainers share, of the plan's `train` part."""
    import torch

    gpu = torch.cuda.is_available()
    return {"output_dir": os.path.join(out, "checkpoints"), "learning_rate": o["learning_rate"], "num_train_epochs": o["epochs"], "per_device_train_batch_size": o["batch"],
            "gradient_accumulation_steps": o.get("accumulate", 1), "lr_scheduler_type": "cosine", "warmup_steps": 0.05, "weight_decay": 0.0, "bf16": gpu, "use_cpu": not gpu,
            "logging_steps": o.get("log_steps", 10), "save_strategy": "steps", "save_steps": o.get("save_steps", 200), "save_total_limit": 1, "report_to": [], "seed": o["seed"],
            "disable_tqdm": True, "gradient_checkpointing": gpu, "max_steps": o.get("max_steps", -1), "dataloader_pin_memory": gpu}


def resume(args: dict[str, Any]) -> str | None:
    """The newest checkpoint of an earlier try, if one is whole."""
    d = args["output_dir"]
    found = [c for c in (os.listdir(d) if os.path.isdir(d) else []) if c.startswith("checkpoint-") and os.path.exists(os.path.join(d, c, "trainer_state.json"))]
    return os.path.join(d, max(found, key=lambda c: int(c.split("-")[1]))) if found else None


def lora(rank: int) -> Any:
    if not rank:
        return None
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")


def load(base: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tok = AutoTokenizer.from_pretrained(base)
    net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16 if torch.cuda.is_available() else torch.float32)
    for m in net.modules():  # dropout while sampling spoils the ratio of policies
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
    return net, tok


def check(rows: list[dict[str, Any]]) -> None:
    for i, r in enumerate(rows):
        if len(r["ids"]) != len(r["mask"]) or not any(r["mask"]):
            raise Mistake(f"row {i} ({r.get('task')}): {len(r['ids'])} tokens, {len(r['mask'])} marks, {sum(r['mask'])} of them set: nothing of it can be trained on")


def split(r: dict[str, Any]) -> tuple[list[int], list[int]]:
    """A play as prompt (up to its first own token) and the rest."""
    at = r["mask"].index(1)
    return r["ids"][:at], r["ids"][at:]


def run(method: str, base: str, rows: list[dict[str, Any]], out: str, o: dict[str, Any], log: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Trains base on rows by method (sft, rft: all rows; kto: label; dpo: chosen and rejected) and saves OUT/model. Returns {steps, loss, trained_tokens}."""
    import datasets
    import trl

    net, tok = load(base)
    args = common(out, o)
    extra: dict[str, Any] = {"model": net, "processing_class": tok, "peft_config": lora(o.get("lora_rank", 0)), "callbacks": [trainer_callback(log, method)]}
    if method in ("sft", "rft"):
        check(rows)
        data = datasets.Dataset.from_list([{"input_ids": r["ids"], "assistant_masks": r["mask"]} for r in rows])
        t: Any = trl.SFTTrainer(train_dataset=data, args=trl.SFTConfig(max_length=o["max_length"], packing=False, **args), **extra)
        want = sum(sum(r["mask"]) for r in rows)
        got = sum(x != -100 for r in t.train_dataset for x in r["labels"])
        if got != want and all(len(r["ids"]) <= o["max_length"] for r in rows):
            raise Mistake(f"the trainer takes the loss on {got} tokens, {want} were marked")
    elif method == "kto":
        check(rows)
        # TRL's KTO takes text: what it makes of it must be the tokens that were sampled.
        data = datasets.Dataset.from_list([{"prompt": tok.decode(split(r)[0]), "completion": tok.decode(split(r)[1]), "label": bool(r["label"])} for r in rows])
        t = trl.KTOTrainer(train_dataset=data, args=trl.KTOConfig(max_length=o["max_length"], beta=o.get("beta", 0.02), **args), **extra)
    elif method == "dpo":
        data = datasets.Dataset.from_list([{"prompt": tok.decode(split(r["chosen"])[0]), "chosen": tok.decode(split(r["chosen"])[1]), "rejected": tok.decode(split(r["rejected"])[1])} for r in rows])
        t = trl.DPOTrainer(train_dataset=data, args=trl.DPOConfig(max_length=o["max_length"], beta=o.get("beta", 0.02), **args), **extra)
    else:
        raise Mistake(f"method {method!r} is none of sft, rft, kto, dpo")
    result = t.train(resume_from_checkpoint=resume(args))
    return finish(t, tok, base, out, result)


def finish(t: Any, tok: Any, base: str, out: str, result: Any) -> dict[str, Any]:
    """Saves the model whole (LoRA weights merged), with its tokenizer and the dialect of its base."""
    import math
    import shutil

    losses = [x["loss"] for x in t.state.log_history if "loss" in x]
    if not all(math.isfinite(x) for x in losses):
        raise Mistake(f"a loss is no number: {losses[-3:]}")
    to = os.path.join(out, "model")
    net = t.model.merge_and_unload() if hasattr(t.model, "merge_and_unload") else t.model
    net.save_pretrained(to)
    tok.save_pretrained(to)
    if os.path.exists(os.path.join(base, "agon.json")):
        shutil.copy(os.path.join(base, "agon.json"), to)
    return {"steps": result.global_step, "loss": losses[-1] if losses else result.training_loss}


def read_rows(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]
