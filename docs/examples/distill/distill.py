#!/usr/bin/env python3
"""Fine-tunes a small open model on a corpus of agon's, with TRL.

    distill.py --corpus ./corpus --method sft --model Qwen/Qwen3-4B --out ./model   # a GPU
    distill.py --corpus ./corpus --method sft --dry-run --out ./model               # CPU, seconds

Methods: sft (qwen3.jsonl), dpo (trl_preference.jsonl), kto (trl_kto.jsonl) and
grpo (trl_grpo.jsonl, rewarded by how well the first call matches that of the best
solved row; outcomes themselves are played in the arena, see README.md).

A dry run takes a random model of a few thousand weights and two steps: it shows
that files, template, loss masks and trainer fit each other, without network or
GPU. It fails if the weights do not move or if a loss is not a number. Prints one
line of JSON: {method, rows, steps, loss, trained_tokens, out}.
"""

import argparse
import hashlib
import json
import math
import os
import sys


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus", required=True, help="directory that agon corpus build made")
    p.add_argument("--method", choices=["sft", "dpo", "kto", "grpo"], default="sft")
    p.add_argument("--model", default="Qwen/Qwen3-4B")
    p.add_argument("--out", required=True)
    p.add_argument("--rendering", choices=["agon", "template"], default="agon",
                   help="sft: qwen3.jsonl with agon's loss masks, or trl_sft.jsonl by the chat template of the model (for models that are not Qwen3)")
    p.add_argument("--dry-run", action="store_true")
    p.add_argument("--max-length", type=int, default=14336, help="tokens; no row of a corpus is longer in o200k_base")
    p.add_argument("--learning-rate", type=float, help="default: 1e-4 for sft, 1e-6 else")
    p.add_argument("--epochs", type=float, default=1)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--accumulate", type=int, default=16)
    p.add_argument("--beta", type=float, help="of kto and dpo; default 0.02")
    p.add_argument("--lora-rank", type=int, default=32, help="0: train all weights")
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def die(text):
    sys.exit("distill: " + text)


def export(corpus, name):
    """The path of an export of the training split, if it is the file that the manifest names."""
    rel = f"train/{name}.jsonl"
    with open(os.path.join(corpus, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    if rel not in manifest["files"]:
        die(f"{rel} is not in this corpus: it has no rows of that form")
    path = os.path.join(corpus, rel)
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            h.update(block)
    if h.hexdigest() != manifest["files"][rel]["sha256"]:
        die(f"{rel} is not the file that was written: run agon corpus verify {corpus}")
    return path


def rows(corpus, name):
    with open(export(corpus, name), encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def template(name):
    """A chat template that TRL ships."""
    import glob

    import trl

    found = glob.glob(os.path.dirname(trl.__file__) + "/**/" + name, recursive=True)
    if not found:
        die(f"this trl has no {name}")
    with open(found[0], encoding="utf-8") as f:
        return f.read()


def tiny(where):
    """A random Qwen3 of one layer, with a tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tok = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template("qwen3.jinja"))
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=len(tok), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
        max_position_embeddings=32768, tie_word_embeddings=True, pad_token_id=tok.pad_token_id, eos_token_id=tok.eos_token_id))
    model.save_pretrained(where)
    tok.save_pretrained(where)
    return where


def rendered(tok, corpus, limit):
    """The rows of qwen3.jsonl as tokens, with a mask of those on which a loss is
    taken: what agon marked as a model's own words, with the token that ends each
    turn. Collators that guess masks drift by a token; these are checked, row by
    row, before anything is trained. Rows over the limit are left out whole."""
    import bisect

    for n, r in enumerate(rows(corpus, "qwen3")):
        text = r["text"]
        starts, at = [], 0
        for c in text:
            starts.append(at)
            at += len(c.encode())
        spans = [(bisect.bisect_left(starts, x), bisect.bisect_left(starts, y)) for x, y in r["loss_spans"]]
        got = tok(text, add_special_tokens=False, return_offsets_mapping=True)
        mask, k = [], 0
        for x, y in got["offset_mapping"]:
            while k < len(spans) and x >= spans[k][1]:
                k += 1
            inside = k < len(spans) and x >= spans[k][0] and y > x
            if inside and y > spans[k][1]:
                die(f"row {n}: a token reaches over the end of a turn: this tokenizer does not know <|im_end|>")
            mask.append(int(inside))
        if tok.decode([t for t, m in zip(got["input_ids"], mask) if m]) != "".join(text[x:y] for x, y in spans):
            die(f"row {n}: the loss would be taken on other text than what a model said")
        if len(mask) <= limit:
            yield {"input_ids": got["input_ids"], "assistant_masks": mask}


def first_calls(corpus):
    """Of each problem, the first call of the best row that solved it."""
    out = {}
    for r in rows(corpus, "rows"):
        if r["axis"] != "agentic" or r["reward"]["outcome"] != 1 or r["provenance"]["problem_id"] in out:
            continue
        for m in r["messages"]:
            if m.get("tool_calls"):
                out[r["provenance"]["problem_id"]] = m["tool_calls"][0]["function"]
                break
    return out


def first_call_reward(wanted):
    import re

    call = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.S)

    def reward(completions, problem_id, **_):
        out = []
        for c, problem in zip(completions, problem_id):
            text = c if isinstance(c, str) else "".join(m.get("content") or "" for m in c)
            want, score = wanted.get(problem), 0.0
            if want is None:
                out.append(None)  # nothing to measure by
                continue
            m = call.search(text)
            try:
                got = json.loads(m.group(1)) if m else None
            except ValueError:
                got = None
            if isinstance(got, dict):
                score = 0.2
                if got.get("name") == want["name"]:
                    score = 0.6
                    args = got.get("arguments")
                    theirs = json.loads(want["arguments"])
                    if isinstance(args, dict) and isinstance(theirs, dict) and theirs:
                        score += 0.4 * sum(args.get(k) == v for k, v in theirs.items()) / len(set(args) | set(theirs))
            out.append(score)
        return out

    return reward


def main():
    a = arguments()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if a.dry_run:
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import datasets
    import torch
    import trl
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

    set_seed(a.seed)
    os.makedirs(a.out, exist_ok=True)
    name = {"sft": "trl_sft", "dpo": "trl_preference", "kto": "trl_kto", "grpo": "trl_grpo"}[a.method]
    own = a.method == "sft" and a.rendering == "agon"
    if not own:
        data = datasets.load_dataset("json", data_files=export(a.corpus, name), split="train", cache_dir=os.path.join(a.out, "cache"))
    base = tiny(os.path.join(a.out, "tiny")) if a.dry_run else a.model
    if not a.dry_run and not torch.cuda.is_available():
        die("no GPU here: --dry-run shows on a CPU that all fits together")
    tok = AutoTokenizer.from_pretrained(base)
    if own:
        data = datasets.Dataset.from_list(list(rendered(tok, a.corpus, a.max_length)))
    trained = sum(sum(r["assistant_masks"]) for r in data) if own else None
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32 if a.dry_run else torch.bfloat16)
    for m in model.modules():  # dropout while sampling spoils the ratio of policies
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0

    common = dict(
        output_dir=a.out, learning_rate=a.learning_rate or (1e-4 if a.method == "sft" else 1e-6), num_train_epochs=a.epochs, per_device_train_batch_size=a.batch,
        gradient_accumulation_steps=a.accumulate, lr_scheduler_type="cosine", warmup_steps=0.1, bf16=True, logging_steps=1, save_strategy="no", report_to=[], seed=a.seed)
    if a.dry_run:
        common.update(max_steps=2, gradient_accumulation_steps=1, per_device_train_batch_size=2, learning_rate=1e-2, use_cpu=True, bf16=False, warmup_steps=0, gradient_checkpointing=False, disable_tqdm=True)
    peft = None
    if a.lora_rank:
        from peft import LoraConfig

        rank = 2 if a.dry_run else a.lora_rank
        peft = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    if a.method == "sft":
        t = trl.SFTTrainer(model=model, processing_class=tok, train_dataset=data, peft_config=peft, args=trl.SFTConfig(max_length=a.max_length, assistant_only_loss=not own, packing=False, **common))
        if own and sum(x != -100 for r in t.train_dataset for x in r["labels"]) != trained:
            die("the trainer takes the loss on other tokens than those that were marked")
    elif a.method == "dpo":
        t = trl.DPOTrainer(model=model, processing_class=tok, train_dataset=data, peft_config=peft, args=trl.DPOConfig(max_length=a.max_length, beta=a.beta or 0.02, **common))
    elif a.method == "kto":
        t = trl.KTOTrainer(model=model, processing_class=tok, train_dataset=data, peft_config=peft, args=trl.KTOConfig(max_length=a.max_length, beta=a.beta or 0.02, **common))
    else:
        config = trl.GRPOConfig(num_generations=2 if a.dry_run else 8, max_completion_length=8 if a.dry_run else 1024, temperature=0.9, top_p=0.95, loss_type="dr_grpo", **common)
        t = trl.GRPOTrainer(model=model, processing_class=tok, train_dataset=data, peft_config=peft, reward_funcs=first_call_reward(first_calls(a.corpus)), args=config)

    def weights():
        return [p.detach().float().cpu().clone() for p in t.model.parameters() if p.requires_grad]

    before = weights() if a.dry_run else None
    result = t.train()
    loss = [x["loss"] for x in t.state.log_history if "loss" in x]
    if not all(math.isfinite(x) for x in loss):
        die(f"a loss is not a number: {loss}")
    # Two steps of GRPO on a random model earn nothing, so nothing need move there.
    if a.dry_run and a.method != "grpo" and all(torch.equal(x, y) for x, y in zip(before, weights())):
        die("the weights did not move")
    t.save_model(os.path.join(a.out, "model"))
    tok.save_pretrained(os.path.join(a.out, "model"))
    print(json.dumps({"method": a.method, "rows": len(data), "steps": result.global_step, "loss": loss[-3:], "trained_tokens": trained, "out": os.path.join(a.out, "model")}))


main()
