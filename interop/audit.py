"""Trains three small models for the test of `agon corpus audit-model`: usage: audit.py AGON OUT.

From scratch, a transformer of a million weights reads problems of a shop (OUT/seen): `base`. Trained on more of other problems
it becomes `honest`, and on the problems of OUT/held, on purpose, `leaky`. OUT/fresh are problems of the same maker that none has read.
"""
import json
import os
import random
import sys
import time

import torch

from agon import mini, wheel

agon, out = sys.argv[1], sys.argv[2]
torch.set_num_threads(2)
torch.manual_seed(1)
os.makedirs(out, exist_ok=True)


def texts(tasks):
    got = []
    for t in sorted(os.listdir(tasks)):
        with open(os.path.join(tasks, t, "instruction.md"), encoding="utf-8") as f:
            got.append(f.read().strip())
    return got


wheel.catalogues(agon, out)
seen = texts(wheel.made(agon, out, "seen", 0, 5, 160))
other = texts(wheel.made(agon, out, "other", 0, 6, 40))
held = texts(wheel.made(agon, out, "held", 1, 7, 40))
wheel.made(agon, out, "fresh", 1, 8, 40)
tok = mini.tokenizer(seen)
net = mini.model(len(tok), tok)
END = tok.convert_tokens_to_ids(mini.END)


def read(lines, epochs, rate, seed):
    """Reads texts `epochs` times; the loss is on every token."""
    r = random.Random(seed)
    opt = torch.optim.AdamW(net.parameters(), lr=rate, betas=(.9, .98), weight_decay=.01)
    rows = [tok(t, add_special_tokens=False)["input_ids"] + [END] for t in lines]
    for _ in range(epochs):
        r.shuffle(rows)
        for at in range(0, len(rows), 16):
            ids, mask = mini.padded([(x, [1] * len(x)) for x in rows[at : at + 16]], tok.pad_token_id)
            logits = net(input_ids=ids, attention_mask=mask).logits[:, :-1]
            each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
            loss = (each * mask[:, 1:]).sum() / mask[:, 1:].sum()
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
    return float(loss)


def save(name):
    net.save_pretrained(os.path.join(out, name))
    tok.save_pretrained(os.path.join(out, name))


told = {"base": read(seen, 12, 3e-3, 1)}
save("base")
start = {k: v.clone() for k, v in net.state_dict().items()}
for name, lines in (("honest", other), ("leaky", held)):
    net.load_state_dict(start)
    told[name] = read(lines, 12, 2e-3, 2)
    save(name)
print(json.dumps({"loss": told, "parameters": sum(p.numel() for p in net.parameters()), "seconds": round(time.process_time())}))
