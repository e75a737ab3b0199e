"""Loads every export of a corpus with the library that it is made for.

corpus.py DIR prints one line of JSON: {check: {"ok", "rows", "error"}}. A
check whose library is not here answers {"absent": name}.
"""

import glob
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
root = os.path.abspath(sys.argv[1])
cache = sys.argv[2]
checks = {}


def check(f):
    checks[f.__name__] = f
    return f


def lines(name):
    out = []
    for split in ("train", "eval"):
        path = f"{root}/{split}/{name}.jsonl"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                out += [json.loads(x) for x in f]
    assert out, f"no rows of {name}"
    return out


def load(name, split="train"):
    """A config of the dataset card, read from the folder as from the hub."""
    from datasets import load_dataset

    d = load_dataset(root, name, cache_dir=cache)
    for s in d:
        assert len(d[s]) > 0, f"{name}: no rows of {s}"
    return d[split]


@check
def card():
    from datasets import get_dataset_config_names, load_dataset

    names = get_dataset_config_names(root)
    files = {os.path.basename(p).split(".")[0] for p in glob.glob(root + "/train/*")}
    files = {f for f in files if not f.startswith("verl")}  # verl reads its files by path
    assert {("openai" if n == "default" else n) for n in names} == files, (names, files)
    rows = 0
    for n in names:
        d = load_dataset(root, n, cache_dir=cache)
        assert set(d) == {"train", "test"}, (n, list(d))
        assert d["train"].features == d["test"].features, (n, d["train"].features, d["test"].features)
        rows += sum(len(d[s]) for s in d)
    return rows


def chat(messages):
    waiting = set()
    for i, m in enumerate(messages):
        assert m["role"] in ("system", "user", "assistant", "tool"), m["role"]
        assert m["role"] != "system" or i == 0
        assert m["role"] == "tool" or not waiting
        if m["role"] == "tool":
            waiting.remove(m["tool_call_id"])
        for c in m.get("tool_calls") or []:
            assert c["type"] == "function" and isinstance(c["function"]["arguments"], str)
            json.loads(c["function"]["arguments"])
            waiting.add(c["id"])
    assert not waiting


@check
def openai():
    rows = lines("openai")
    for r in rows:
        assert set(r) == {"messages", "tools"}
        chat(r["messages"])
        for t in r["tools"]:
            assert t["type"] == "function" and t["function"]["name"] and t["function"]["parameters"]["type"] == "object"
    return len(rows)


@check
def openai_types():
    """The request model of OpenAI's own package takes every message."""
    import typing

    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from pydantic import TypeAdapter

    m, t = TypeAdapter(typing.List[ChatCompletionMessageParam]), TypeAdapter(typing.List[ChatCompletionToolParam])
    rows = lines("openai")
    for r in rows:
        m.validate_python(r["messages"])
        t.validate_python(r["tools"])
    return len(rows)


@check
def flat():
    rows = lines("oro_flat")
    for r in rows:
        chat(r["messages"])
        for t in r["tools"]:
            assert t["type"] == "function" and t["name"] and "function" not in t
    return len(rows)


@check
def verl():
    import pandas
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    for split in ("train", "eval"):
        t = pq.read_table(f"{root}/{split}/verl_rl.parquet")
        want = pa.schema([("data_source", pa.string()), ("ability", pa.string())])
        for f in want:
            assert t.schema.field(f.name).type == f.type, t.schema
        assert pa.types.is_list(t.schema.field("prompt").type) and pa.types.is_struct(t.schema.field("prompt").type.value_type), t.schema
        frame = pandas.read_parquet(f"{root}/{split}/verl_rl.parquet")
        for i, r in enumerate(frame.to_dict("records")):
            assert r["extra_info"]["index"] == i and r["reward_model"]["style"] == "rule" and r["reward_model"]["ground_truth"]
            assert [m["role"] for m in r["prompt"]][-1] == "user" and r["extra_info"]["split"] == split
        rows += len(frame)
        frame = pandas.read_parquet(f"{root}/{split}/verl_sft.parquet")
        for r in frame.to_dict("records"):
            json.loads(r["tools"])
            assert bool(r["enable_thinking"]) in (True, False)
            for i, m in enumerate(r["messages"]):
                assert m["role"] in ("system", "user", "assistant", "tool") and (m["role"] != "system" or i == 0)
        rows += len(frame)
    return rows


@check
def verl_tools():
    import yaml

    with open(root + "/verl_tools.yaml", encoding="utf-8") as f:
        d = yaml.safe_load(f)
    for t in d["tools"]:
        assert t["class_name"] and isinstance(t["config"], dict) and t["tool_schema"]["type"] == "function" and t["tool_schema"]["function"]["name"]
    return len(d["tools"])


def template(name):
    import trl

    # The files' place has changed with versions; their name has not.
    found = glob.glob(os.path.dirname(trl.__file__) + "/**/" + name, recursive=True)
    if not found:
        raise ModuleNotFoundError("no " + name + " in trl", name=name)
    with open(found[0], encoding="utf-8") as f:
        return f.read()


@check
def qwen3():
    """The template that TRL ships for Qwen3 renders the same text and marks the same bytes."""
    from transformers.utils.chat_template_utils import render_jinja_template

    text, masks = template("qwen3.jinja"), template("qwen3_training.jinja")
    rows, raw, marked = lines("qwen3"), {r["id"]: r for r in lines("rows")}, 0
    for r in rows:
        src = raw[r["id"]]
        messages = [{k: v for k, v in m.items() if k in ("role", "content", "reasoning_content", "tool_calls")} for m in src["messages"]]
        for m in messages:
            for c in m.get("tool_calls") or []:
                c["function"] = dict(c["function"], arguments=json.loads(c["function"]["arguments"]))
        want, _ = render_jinja_template(conversations=[messages], tools=src["tools"] or None, chat_template=text)
        assert want[0] == r["text"], first(want[0], r["text"])
        out, spans = render_jinja_template(conversations=[messages], tools=src["tools"] or None, chat_template=masks, return_assistant_tokens_mask=True)
        if out[0] == r["text"]:
            b = r["text"].encode()
            ours = [b[x:y].decode() for x, y in r["loss_spans"]]
            theirs = [out[0][x:y] for x, y in spans[0]]
            # TRL's span takes in the line feed after the token that ends the turn; no model is asked for it.
            assert ours == [x.removesuffix("\n") for x in theirs], (ours, theirs)
            marked += 1
    assert marked, "no masks were compared: " + first(out[0], r["text"])
    return len(rows)


def first(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return f"differ at {i}: want {a[max(0, i - 60):i + 60]!r}, have {b[max(0, i - 60):i + 60]!r}"
    return f"differ in length: {len(a)}, {len(b)}"


def tokenizer():
    """A tokenizer of bytes: none can be fetched here, and lengths do not matter."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template("qwen3_training.jinja"))


def tiny(tok):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    m = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=len(tok), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
        max_position_embeddings=32768, tie_word_embeddings=True, pad_token_id=tok.pad_token_id, eos_token_id=tok.eos_token_id))
    where = cache + "/tiny"  # trainers with a reference load it again
    m.save_pretrained(where)
    return Qwen3ForCausalLM.from_pretrained(where)


common = dict(max_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True, save_strategy="no", bf16=False, gradient_checkpointing=False, disable_tqdm=True)


@check
def trl_sft():
    from trl import SFTConfig, SFTTrainer

    d, tok = load("trl_sft"), tokenizer()
    t = SFTTrainer(model=tiny(tok), processing_class=tok, train_dataset=d, args=SFTConfig(output_dir=cache + "/sft", max_length=14336, assistant_only_loss=True, **common))
    t.train()
    return len(d)


@check
def trl_preference():
    from trl import DPOConfig, DPOTrainer

    d, tok = load("trl_preference"), tokenizer()
    t = DPOTrainer(model=tiny(tok), processing_class=tok, train_dataset=d, args=DPOConfig(output_dir=cache + "/dpo", max_length=2048, **common))
    t.train()
    return len(d)


@check
def trl_kto():
    try:
        from trl.experimental.kto import KTOConfig, KTOTrainer
    except ImportError:
        from trl import KTOConfig, KTOTrainer
    d, tok = load("trl_kto"), tokenizer()
    t = KTOTrainer(model=tiny(tok), processing_class=tok, train_dataset=d, args=KTOConfig(output_dir=cache + "/kto", max_length=2048, **common))
    t.train()
    return len(d)


@check
def trl_stepwise():
    d = load("trl_stepwise")
    for r in d:
        assert isinstance(r["prompt"], str) and r["completions"] and len(r["completions"]) == len(r["labels"]) and all(isinstance(x, bool) for x in r["labels"])
    return len(d)


@check
def trl_grpo():
    from trl import GRPOConfig, GRPOTrainer

    d, tok = load("trl_grpo"), tokenizer()
    seen = []

    def reward(completions, problem_id, problem_digest, **_):
        seen.extend(zip(problem_id, problem_digest))
        return [float(len(str(c)) % 7) for c in completions]

    args = GRPOConfig(output_dir=cache + "/grpo", num_generations=2, max_completion_length=8, **common)
    GRPOTrainer(model=tiny(tok), processing_class=tok, train_dataset=d, reward_funcs=reward, args=args).train()
    assert seen and all(x.startswith("sha256:") for _, x in seen), seen
    return len(d)


out = {}
for name in sys.argv[3:] or list(checks):
    try:
        out[name] = {"ok": True, "rows": checks[name]()}
    except ImportError as e:
        out[name] = {"absent": e.name or str(e)}
    except Exception as e:
        import traceback

        out[name] = {"error": (f"{type(e).__name__}: {e}"[:2000] + " | " + "".join(traceback.format_exc()[-1500:]))}
print(json.dumps(out), file=os.fdopen(os.dup(1), "w"))
