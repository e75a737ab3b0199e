"""A small model that plays shopping problems in few words, and how it is first trained.

No weights are needed from anywhere: `base` makes a tokenizer and a model of about a
million parameters and trains it on synthetic dialogues of the tool protocol, in which
nobody shops well: the parts of a wish that are searched for and the product that is taken
are drawn. What the base knows after that is the form.

The parts of a wish have letters, so that a small model need not copy words:

    <wish>a lightweight lunch box b of the brand c for at most d material: glass
    <act>find a b c d<end>
    <obs>1 doxzu lightweight lunch box ; 2 doxzu lunch box premium ; …
    <act>take 1<end>

`Mini` carries such turns out with the tools of the environment: find is find_product with
the words, the price and the service of these parts; take is recommend_product and terminate.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any

from .env import Play, Reply, Task, Tool

SHOWN = 3  # products that a search shows
PAD, WISH, ACT, OBS, END = "<pad>", "<wish>", "<act>", "<obs>", "<end>"
LETTERS = "abcdefgh"
SERVICES = {"official": "official", "shipping": "freeShipping", "delivery": "COD", "flash": "flashsale"}
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<wish>{{ m.content }}{% elif m.role == 'assistant' %}<act>{{ m.content }}<end>"
    "{% else %}<obs>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<act>{% endif %}"
)
CODE = re.compile(r"\b[A-Z]\d{2,3}\b")
PRICE = re.compile(r"priced between ([\d.]+) and ([\d.]+) pesos|for at most ([\d.]+) pesos|that costs at least ([\d.]+) pesos")


def parts(prompt: str) -> list[str]:
    """The parts of a Product problem, what is wanted first, in lower case."""
    text = prompt.split(". Which one")[0].rstrip(" .?").lower()
    head, colon, rest = text.partition(": ")
    if colon and not PRICE.search(head) and ", of the brand" not in head:
        text = rest  # head was the greeting
    return text.split(", ")[: len(LETTERS)]


def wish(list_: list[str]) -> str:
    """The parts as the model sees them: a letter and three words each."""
    return " ".join(f"{x} " + " ".join(p.split()[:3]) for x, p in zip(LETTERS, list_))


def shown(products: list[dict[str, Any]]) -> str:
    """The results of a search in few words."""
    return " ; ".join(f"{i} " + " ".join(CODE.sub(" ", p["title"]).lower().split()[:4]) for i, p in enumerate(products[:SHOWN], 1)) or "none"


def search(list_: list[str]) -> dict[str, str]:
    """Parts of a wish as arguments of find_product."""
    words: list[str] = []
    args: dict[str, str] = {}
    for p in list_:
        if m := PRICE.fullmatch(p):
            args["price"] = f"{m[1] or m[4] or ''}-{m[2] or m[3] or ''}"
        elif service(p):
            args["service"] = service(p)
        elif m := re.fullmatch(r"of the brand (.+)|to be had in (.+)|[^:]+: (.+)", p):
            words.append(m[1] or m[2] or m[3])
        else:
            words.append(p)
    return {"q": " ".join(words) or "any", **args}


def service(part: str) -> str:
    if not re.match(r"from an|with |that is ", part):
        return ""
    return next((v for k, v in SERVICES.items() if k in part.split()), "")


class Mini:
    """The dialect `mini`; see the module."""

    def __init__(self, tokenizer: Any) -> None:
        self.tok = tokenizer
        self.stop = [tokenizer.convert_tokens_to_ids(END)]
        self.found: list[dict[str, Any]] = []
        self.parts: list[str] = []

    def _ids(self, text: str) -> list[int]:
        return list(self.tok(text, add_special_tokens=False)["input_ids"])

    def begin(self, task: Task, tools: list[Tool]) -> list[int]:
        self.parts = parts(task.prompt)
        return self._ids(f"{WISH}{wish(self.parts)}{ACT}")

    def answer(self, text: str) -> list[int]:
        return self._ids(f"{OBS}{text}{ACT}")

    def act(self, text: str, play: Play) -> tuple[list[tuple[str, dict[str, Any]]], str, Reply | None]:
        text = text.strip()
        if text.startswith("find "):
            args = search([p for x, p in zip(LETTERS, self.parts) if x in text.split()[1:]])
            r = play.call("find_product", args)
            try:
                self.found = [] if r.refused else json.loads(r.text)
            except ValueError:
                self.found = []
            return [("find_product", args)], shown(self.found), None
        m = re.fullmatch(r"take\s*(\d)", text)
        if m and 1 <= int(m[1]) <= len(self.found[:SHOWN]):
            args = {"product_ids": self.found[int(m[1]) - 1]["product_id"]}
            play.call("recommend_product", args)
            return [("recommend_product", args), ("terminate", {})], "", play.call("terminate", {})
        return [], "none", None


# --- the champion's plays: what a rule-based shopper does, in the words of the model ---

def read(list_: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """Which parts the champion searches for, as letters, and the attributes that it compares."""
    letters, want = [], []
    for x, p in zip(LETTERS, list_):
        m = re.fullmatch(r"of the (brand) (.+)|to be had in (\S+) (.+)|([^:]+): (.+)", p)
        if m and not PRICE.fullmatch(p):
            k, v = (g for g in m.groups() if g is not None)
            want.append((k, v))
        if not p.startswith("to be had in") and not p.endswith((": yes", ": no")):
            letters.append(x)
    return " ".join(letters), want


class Champion:
    """The rule-based sample, playing through the environment. It looks at what products say before it takes one."""

    def turns(self, task: Task, play: Play) -> Iterator[tuple[str, str]]:
        """Yields what it says and what it is told; the play is over after the last."""
        wanted = parts(task.prompt)
        letters, want = read(wanted)
        found = json.loads(play.call("find_product", search([p for x, p in zip(LETTERS, wanted) if x in letters.split()])).text or "[]")[:SHOWN]
        yield f"find {letters}", shown(found)
        if not found:
            play.call("terminate", {})
            return
        infos = {p["product_id"]: p for p in json.loads(play.call("view_product_information", {"product_ids": ",".join(p["product_id"] for p in found)}).text)}
        best = max(range(len(found)), key=lambda i: (fits(infos.get(found[i]["product_id"], {}), want), -i))
        play.call("recommend_product", {"product_ids": found[best]["product_id"]})
        play.call("terminate", {})
        yield f"take {best + 1}", ""


def fits(info: dict[str, Any], want: list[tuple[str, str]]) -> int:
    have = {(k.lower(), str(x).lower()) for k, v in (info.get("attributes") or {}).items() for x in v}
    options = [{(k.lower(), str(v).lower()) for k, v in o.items()} for o in (info.get("sku_options") or {}).values()]
    return max(sum((k.lower(), v.lower()) in have | o for k, v in want) for o in [set(), *options])


# --- tokenizer, model, synthetic dialogues ---

def tokenizer(texts: list[str], size: int = 1024) -> Any:
    """A tokenizer of pairs, trained on these texts; digits stand alone, so that numbers are copied digit by digit."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.Metaspace(prepend_scheme="never")
    special = [PAD, "<unk>", WISH, ACT, OBS, END]
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, min_frequency=2))
    return PreTrainedTokenizerFast(tokenizer_object=t, pad_token=PAD, unk_token="<unk>", eos_token=END, additional_special_tokens=[WISH, ACT, OBS],
                                   chat_template=TEMPLATE, clean_up_tokenization_spaces=False)


def model(vocabulary: int, tok: Any, hidden: int = 128, layers: int = 4) -> Any:
    """A Qwen3 of about a million weights, untrained."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32, num_key_value_heads=hidden // 32,
        head_dim=32, max_position_embeddings=512, tie_word_embeddings=True, pad_token_id=tok.pad_token_id, eos_token_id=tok.convert_tokens_to_ids(END)))


def invented(p: dict[str, Any], r: random.Random) -> str:
    """A wish for a product of a catalogue, in the words of the generator of problems."""
    title = [w for w in CODE.sub(" ", p["title"]).lower().split() if w != p["brand"]]
    said = []
    if p["brand"] != "no brand":
        said.append(f"of the brand {p['brand']}")
    lo, hi = int(p["price"] * r.uniform(.55, .9)), int(p["price"] * r.uniform(1.15, 1.95)) + 1
    said.append(r.choice([f"that costs at least {lo} pesos", f"for at most {hi} pesos", f"priced between {lo} and {hi} pesos", f"priced between {lo} and {hi} pesos"]))
    if p["service"] and r.random() < .6:
        said.append({"official": "from an official store", "freeShipping": "with free shipping", "COD": "with cash on delivery", "flashsale": "that is on flash sale"}[r.choice(p["service"])])
    keys = sorted(k for k in p["attributes"] if k != "brand" and p["attributes"][k])
    if keys:
        k = r.choice(keys)
        said.append(f"{k}: {p['attributes'][k][0]}")
    if p["sku_options"] and r.random() < .4:
        k, v = r.choice(sorted(r.choice(list(p["sku_options"].values())).items()))
        said.append(f"to be had in {k} {v}")
    return ", ".join([" ".join(title[:r.randint(2, 5)]), *said])


def synthetic(products: list[dict[str, Any]], r: random.Random) -> list[tuple[str, str]]:
    """A dialogue of the protocol as (role, text): the form is right, the choices are drawn."""
    list_ = invented(r.choice(products), r).split(", ")
    letters = [x for x, _ in zip(LETTERS, list_) if r.random() < .5] or [r.choice(LETTERS[: len(list_)])]
    n = r.randint(1, SHOWN)
    return [("wish", wish(list_)), ("act", "find " + " ".join(letters)), ("obs", shown([r.choice(products) for _ in range(n)])), ("act", f"take {r.randint(1, n)}")]


def tokens(tok: Any, dialogue: list[tuple[str, str]]) -> tuple[list[int], list[int]]:
    """Ids and the mask of a dialogue: 1 on what the model says, with the token that ends its turn."""
    ids: list[int] = []
    mask: list[int] = []
    for role, text in dialogue:
        if role == "act":
            head = tok(ACT, add_special_tokens=False)["input_ids"]
            got = tok(text + END, add_special_tokens=False)["input_ids"]
            ids += head + got
            mask += [0] * len(head) + [1] * len(got)
        else:
            got = tok({"wish": WISH, "obs": OBS}[role] + text, add_special_tokens=False)["input_ids"]
            ids += got
            mask += [0] * len(got)
    return ids, mask


def base(catalogue: str, out: str, steps: int, seed: int, batch: int = 16, rate: float = 3e-3, log: Any = print) -> dict[str, Any]:
    """Makes a tokenizer and a model and trains it on synthetic dialogues over a catalogue's words; the loss is on what the model says,
    and a tenth of it on the rest. Returns {parameters, steps, loss, tokens}."""
    import torch

    r = random.Random(seed)
    torch.manual_seed(seed)
    with open(catalogue, encoding="utf-8") as f:
        products = [json.loads(line) for line in f]
    products = [p for p in products if p["title"].isascii()]
    tok = tokenizer([t for _ in range(1500) for _, t in synthetic(products, r)])
    net = model(len(tok), tok)
    opt = torch.optim.AdamW(net.parameters(), lr=rate, betas=(.9, .98), weight_decay=.01)
    warm = max(1, steps // 20)
    plan = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min((i + 1) / warm, max(.05, (steps - i) / max(1, steps - warm))))
    seen, last = 0, 0.0
    for i in range(steps):
        rows = [tokens(tok, synthetic(products, r)) for _ in range(batch)]
        ids, mask = padded(rows, tok.pad_token_id)
        logits = net(input_ids=ids, attention_mask=(ids != tok.pad_token_id).long()).logits[:, :-1]
        weight = mask[:, 1:].float() + .1 * ((1 - mask[:, 1:]) * (ids[:, 1:] != tok.pad_token_id)).float()
        each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (each * weight).sum() / weight.sum()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        plan.step()
        seen += int((ids != tok.pad_token_id).sum())
        last = float((each.detach() * mask[:, 1:]).sum() / mask[:, 1:].sum())
        if i % 20 == 0 or i == steps - 1:
            log({"stage": "base", "step": i + 1, "of": steps, "loss": round(last, 4), "tokens": seen})
    os.makedirs(out, exist_ok=True)
    net.save_pretrained(out)
    tok.save_pretrained(out)
    with open(os.path.join(out, "agon.json"), "w", encoding="utf-8") as f:
        json.dump({"dialect": "mini"}, f)
    return {"parameters": sum(p.numel() for p in net.parameters()), "steps": steps, "loss": last, "tokens": seen}


def padded(rows: list[tuple[list[int], list[int]]], pad: int) -> tuple[Any, Any]:
    import torch

    n = max(len(ids) for ids, _ in rows)
    return (torch.tensor([ids + [pad] * (n - len(ids)) for ids, _ in rows]), torch.tensor([m + [0] * (n - len(m)) for _, m in rows]))
