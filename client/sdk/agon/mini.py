"""A small model that plays shopping problems in few words, and how it is first trained.

No weights are needed from anywhere: `base` makes a tokenizer and a model of about a
million parameters and trains it on synthetic dialogues of the tool protocol, in which
nobody shops well: the words that are searched for and the product that is taken are drawn.
What the base knows after that is the form: to copy words of a wish and to take a number.

A play, in the tokens of the model:

    <wish>lightweight lunch box, of the brand doxzu, for at most 70 pesos, material: glass
    <act>find lightweight lunch box doxzu glass ; - 70<end>
    <obs>1 doxzu lightweight lunch box glass ; 2 doxzu lunch box premium ; …
    <act>take 1<end>

`Mini` carries such turns out with the tools of the environment: find is find_product with
the words, the price and the service; take is recommend_product and terminate.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any

from .env import Play, Reply, Task, Tool

SHOWN = 5  # products that a search shows
PAD, WISH, ACT, OBS, END = "<pad>", "<wish>", "<act>", "<obs>", "<end>"
SERVICES = {"official": "official", "shipping": "freeShipping", "delivery": "COD", "flash": "flashsale"}
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<wish>{{ m.content }}{% elif m.role == 'assistant' %}<act>{{ m.content }}<end>"
    "{% else %}<obs>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<act>{% endif %}"
)
CODE = re.compile(r"\b[A-Z]\d{2,3}\b")


def wish(prompt: str) -> str:
    """The part of a Product problem that says what is wanted, in lower case."""
    text = prompt.split(": ", 1)[-1] if ": " in prompt.split(",")[0] else prompt
    return text.split(". Which one")[0].rstrip(" .?").lower()


def shown(products: list[dict[str, Any]]) -> str:
    """The results of a search in few words."""
    return " ; ".join(f"{i} " + " ".join(CODE.sub(" ", p["title"]).lower().split()[:6]) for i, p in enumerate(products[:SHOWN], 1)) or "none"


def search(text: str) -> dict[str, str]:
    """`find a b ; 1 - 2 ; shipping` as arguments of find_product."""
    words, *rest = (p.strip() for p in text.removeprefix("find").split(";"))
    args = {"q": words}
    for p in rest:
        if "-" in p:
            lo, _, hi = (x.strip() for x in p.partition("-"))
            args["price"] = f"{lo}-{hi}"
        elif p in SERVICES:
            args["service"] = SERVICES[p]
    return args


class Mini:
    """The dialect `mini`; see the module."""

    def __init__(self, tokenizer: Any) -> None:
        self.tok = tokenizer
        self.stop = [tokenizer.convert_tokens_to_ids(END)]
        self.found: list[dict[str, Any]] = []

    def _ids(self, text: str) -> list[int]:
        return list(self.tok(text, add_special_tokens=False)["input_ids"])

    def begin(self, task: Task, tools: list[Tool]) -> list[int]:
        return self._ids(f"{WISH}{wish(task.prompt)}{ACT}")

    def answer(self, text: str) -> list[int]:
        return self._ids(f"{OBS}{text}{ACT}")

    def act(self, text: str, play: Play) -> tuple[list[tuple[str, dict[str, Any]]], str, Reply | None]:
        text = text.strip()
        if text.startswith("find "):
            args = search(text)
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

def read(text: str) -> dict[str, Any]:
    """Takes a wish apart, as the sample agent `rules` does."""
    item: dict[str, Any] = {"words": [], "price": "", "service": "", "want": []}
    for i, part in enumerate(text.split(", ")):
        if m := re.fullmatch(r"priced between ([\d.]+) and ([\d.]+) pesos", part):
            item["price"] = f"{m[1]} - {m[2]}"
        elif m := re.fullmatch(r"for at most ([\d.]+) pesos", part):
            item["price"] = f"- {m[1]}"
        elif m := re.fullmatch(r"that costs at least ([\d.]+) pesos", part):
            item["price"] = f"{m[1]} -"
        elif m := re.fullmatch(r"of the brand (.+)", part):
            item["words"].append(m[1])
            item["want"].append(("brand", m[1]))
        elif m := re.fullmatch(r"to be had in (\S+) (.+)", part):
            item["want"].append((m[1], m[2]))
        elif any(w in part.split() for w in SERVICES) and re.match(r"from an|with |that is ", part):
            item["service"] = next(w for w in SERVICES if w in part.split())
        elif i == 0:
            item["words"].insert(0, part)
        elif ": " in part:
            k, v = part.split(": ", 1)
            item["want"].append((k, v))
            if v not in ("yes", "no"):
                item["words"].append(v)
    return item


def asks(item: dict[str, Any]) -> str:
    return "find " + " ".join(item["words"]) + (f" ; {item['price']}" if item["price"] else "") + (f" ; {item['service']}" if item["service"] else "")


class Champion:
    """The rule-based sample, playing through the environment. It looks at what products say before it takes one."""

    def turns(self, task: Task, play: Play) -> Iterator[tuple[str, str]]:
        """Yields what it says and what it is told; the play is over after the last."""
        item = read(wish(task.prompt))
        say = asks(item)
        found = json.loads(play.call("find_product", search(say)).text or "[]")[:SHOWN]
        yield say, shown(found)
        if not found:
            play.call("terminate", {})
            return
        infos = {p["product_id"]: p for p in json.loads(play.call("view_product_information", {"product_ids": ",".join(p["product_id"] for p in found)}).text)}
        best = max(range(len(found)), key=lambda i: (fits(infos.get(found[i]["product_id"], {}), item["want"]), -i))
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
    text = invented(r.choice(products), r)
    words = re.findall(r"[^\s,:]+", text)
    out = [("wish", text)]
    for _ in range(1 if r.random() < .8 else 2):
        spans = sorted(r.sample(range(len(words)), min(len(words), r.randint(1, 3))))
        picked: list[str] = []
        end = 0
        for a in spans:
            a, b = max(a, end), max(a, end) + r.randint(1, 4)
            picked += words[a:b]
            end = b
        numbers = re.findall(r"\d+", text)
        price = ""
        if numbers and r.random() < .5:
            a = r.choice(numbers)
            price = " ; " + r.choice([f"- {a}", f"{a} -", f"{a} - {r.choice(numbers)}"])
        services = [w for w in words if w in SERVICES]
        service = f" ; {r.choice(services)}" if services and r.random() < .5 else ""
        out.append(("act", "find " + " ".join(picked) + price + service))
        out.append(("obs", shown([r.choice(products) for _ in range(r.randint(1, SHOWN))])))
    out.append(("act", f"take {r.randint(1, out[-1][1].count(';') + 1)}"))
    return out


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


def base(catalogue: str, out: str, steps: int, seed: int, batch: int = 32, rate: float = 2e-3, log: Any = print) -> dict[str, Any]:
    """Makes a tokenizer and a model and trains it on synthetic dialogues over a catalogue's words; the loss is on what the model says,
    and a tenth of it on the rest. Returns {parameters, steps, loss, tokens}."""
    import torch

    r = random.Random(seed)
    torch.manual_seed(seed)
    with open(catalogue, encoding="utf-8") as f:
        products = [json.loads(line) for line in f]
    products = [p for p in products if p["title"].isascii()]
    tok = tokenizer([t for _ in range(4000) for _, t in synthetic(products, r)])
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
        last = float((each * mask[:, 1:]).sum() / mask[:, 1:].sum())
        if i % 50 == 0 or i == steps - 1:
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
