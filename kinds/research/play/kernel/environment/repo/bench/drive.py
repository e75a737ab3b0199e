"""Builds a model of a file and calls it: "make SEED CALLS" writes inputs and the
reference's answers, "run FILE CLASS" reads inputs and writes the answers of CLASS.

What goes in and out is data, never code: a JSON line that describes values, then
their bytes. Nothing here is believed by the benchmark, which times and compares.
"""
import json
import random
import sys

SCALES = [1.0, 4096.0, 1.0 / 4096.0]  # half precision leaves its range, or loses digits


def load(path):
    scope = {"__name__": "kernel"}
    with open(path, encoding="utf-8") as f:
        exec(compile(f.read(), path, "exec"), scope)
    return scope


def seeded(seed):
    """Seeds what is imported already: importing it for nothing would be timed."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def kind(v):
    if type(v) in (int, float, bool, type(None)):
        return "plain"
    name = type(v).__module__.split(".")[0]
    if type(v) in (list, tuple):
        return "list"
    return name if name in ("numpy", "torch") else None


def encode(v):
    """A description of a value and its bytes."""
    k = kind(v)
    if k in ("plain", "list"):
        return {"kind": k, "bytes": 0, "value": v}, b""
    if k == "numpy":
        b = v.tobytes()
        return {"kind": k, "dtype": str(v.dtype), "shape": list(v.shape), "bytes": len(b)}, b
    if k == "torch":
        torch = sys.modules["torch"]
        t = v.detach().contiguous().cpu()
        b = (t.view(torch.int16) if t.dtype is torch.bfloat16 else t).numpy().tobytes()
        return {"kind": k, "dtype": str(t.dtype).split(".")[-1], "shape": list(t.shape), "bytes": len(b)}, b
    raise TypeError("a value of type %s: want numbers, lists, arrays or tensors" % type(v).__name__)


def decode(d, b):
    if d["kind"] in ("plain", "list"):
        return d["value"]
    if d["kind"] == "numpy":
        import numpy
        return numpy.frombuffer(b, dtype=d["dtype"]).reshape(d["shape"]).copy()
    import torch
    raw = torch.frombuffer(bytearray(b), dtype=getattr(torch, d["dtype"])).reshape(d["shape"])
    return raw.cuda() if torch.cuda.is_available() else raw


def scaled(v, by):
    """A value whose numbers are floats, times by."""
    k = kind(v)
    if k == "list":
        return [scaled(x, by) for x in v]
    if k == "plain":
        return v * by if type(v) is float else v
    floats = v.is_floating_point() if k == "torch" else v.dtype.kind == "f"
    return (v * by).to(v.dtype) if floats and k == "torch" else (v * by).astype(v.dtype) if floats else v


def refill(old, new):
    """Puts new values where the old ones lie, so that who keeps answers by the place
    of their inputs gives wrong ones; new where that cannot be."""
    if type(old) is list and type(new) is list and len(old) == len(new):
        for i, x in enumerate(new):
            old[i] = refill(old[i], x)
        return old
    if kind(old) in ("numpy", "torch") and kind(new) == kind(old) and old.shape == new.shape and old.dtype == new.dtype:
        if kind(old) == "numpy":
            old[...] = new
        else:
            old.copy_(new)
        return old
    return new


def send(head, values):
    parts = [encode(v) for v in values]
    head["values"] = [d for d, _ in parts]
    out = sys.stdout.buffer
    out.write(json.dumps(head, allow_nan=False).encode() + b"\n")
    for _, b in parts:
        out.write(b)
    out.flush()


def receive():
    head = json.loads(sys.stdin.buffer.readline())
    return head, [decode(d, sys.stdin.buffer.read(d["bytes"])) for d in head["values"]]


def answers(model, values, per):
    """Calls a model with each set of inputs, in the same memory, and encodes each answer at once."""
    inputs, parts = None, []
    for i in range(0, len(values), per):
        new = values[i:i + per]
        inputs = new if inputs is None else [refill(a, b) for a, b in zip(inputs, new)]
        got = model.forward(*inputs) if hasattr(model, "forward") else model(*inputs)
        parts.append(encode(got))
    return parts


def build(scope, name, seed):
    seeded(seed)
    init = scope["get_init_inputs"]() if "get_init_inputs" in scope else []
    seeded(seed)
    model = scope[name](*init)
    if "torch" in sys.modules and hasattr(model, "cuda") and sys.modules["torch"].cuda.is_available():
        model = model.cuda()
    return model


def main():
    if sys.argv[1] == "make":
        seed, calls = int(sys.argv[2]), int(sys.argv[3])
        scope, values, per = load("bench/reference.py"), [], 0
        for n in range(calls):
            for by in SCALES:
                seeded(seed + n + 1)
                new = [scaled(v, by) for v in scope["get_inputs"]()]
                per, values = len(new), values + new
        send({"seed": seed, "per": per}, values)
        return
    path, name = sys.argv[2:4]
    head, values = receive()
    if not values:
        send({"answers": 0}, [])  # what starting and reading take
        return
    scope = load(path)
    if "get_init_inputs" not in scope:
        scope["get_init_inputs"] = load("bench/reference.py").get("get_init_inputs", list)
    parts = answers(build(scope, name, head["seed"]), values, head["per"])
    out = sys.stdout.buffer
    out.write(json.dumps({"values": [d for d, _ in parts]}).encode() + b"\n")
    for _, b in parts:
        out.write(b)
    out.flush()


main()
