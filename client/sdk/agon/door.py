"""A model of a directory behind OpenAI's completions, for clients that know no transformers.

    python -m agon.door MODEL_DIR --listen 127.0.0.1:0        # one JSON line: {"url": "http://127.0.0.1:PORT/v1", "model": NAME}

GET /v1/models, POST /v1/completions (prompt as text or token ids, n, max_tokens, temperature, top_p, seed, stop,
logprobs, echo) and POST /v1/chat/completions (messages, tools; the model's own chat template). One request at a time is
computed; what does not fit the model's context is refused (400). No streams: `stream` is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST = 4 << 20  # bytes of a request


class Refused(Exception):
    """What the client said wrongly; the text says what."""


class Model:
    """A model and its tokenizer, one call at a time."""

    def __init__(self, directory: str, threads: int = 0) -> None:
        from .rollout import Local

        self.local, self.name, self.lock = Local(directory, threads), os.path.basename(os.path.normpath(directory)), threading.Lock()
        self.context = int(getattr(self.local.net.config, "max_position_embeddings", 4096))

    def ids(self, text: str) -> list[int]:
        return list(self.local.tok(text, add_special_tokens=False)["input_ids"])

    def known(self, ids: list[int]) -> list[float | None]:
        """The log-probability of each token after those before it; of the first, none is known."""
        import torch

        with torch.no_grad():
            logits = self.local.net(input_ids=torch.tensor([ids], device=self.local.device)).logits[0, :-1].float()
            got = torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:], device=self.local.device)[:, None])[:, 0]
        return [None, *got.tolist()]

    def complete(self, q: dict[str, Any], ids: list[int]) -> dict[str, Any]:
        """The answer to a request whose prompt is these tokens, in the form of /v1/completions."""
        import torch

        from .rollout import Sampling

        n, new = number(q, "n", 1, 1, 128), number(q, "max_tokens", 16, 0, self.context)
        if not ids:
            raise Refused("prompt: it has no token")
        if len(ids) + new > self.context:
            raise Refused(f"prompt and max_tokens: {len(ids) + new} tokens, the model's context has {self.context}")
        tok, stop = self.local.tok, [i for i in (self.local.tok.eos_token_id,) if i is not None]
        s = Sampling(temperature=float(q.get("temperature", 1.0)), top_p=float(q.get("top_p", 1.0)), turn_tokens=new)
        ends = [q["stop"]] if isinstance(q.get("stop"), str) else list(q.get("stop") or [])
        choices = []
        with self.lock:
            torch.manual_seed(number(q, "seed", 0, -(1 << 62), 1 << 62))
            said = self.local.say([ids] * (1 if s.temperature == 0 else n), s, stop) if new else [([], [])] * n
            before = self.known(ids) if q.get("echo") and q.get("logprobs") is not None else []
        for i in range(n):
            got, logp = said[min(i, len(said) - 1)]
            text = tok.decode(got, skip_special_tokens=True)
            why = "stop" if got and got[-1] in stop else "length"
            for e in ends:
                if e and e in text:
                    text, why = text[: text.index(e)], "stop"
            parts, each = (ids, before) if q.get("echo") else ([], [])
            head = tok.decode(ids) if q.get("echo") else ""
            c: dict[str, Any] = {"index": i, "text": head + text, "finish_reason": why, "logprobs": None, "token_ids": got}
            if q.get("logprobs") is not None:
                all_ids = [*parts, *got]
                at = [len(tok.decode(all_ids[:k])) for k in range(len(all_ids))]
                c["logprobs"] = {"tokens": tok.convert_ids_to_tokens(all_ids), "token_logprobs": [*each, *logp], "text_offset": at, "top_logprobs": None}
            choices.append(c)
        used = sum(len(x) for x, _ in said)
        return {"id": f"cmpl-{time.monotonic_ns()}", "object": "text_completion", "created": int(time.time()), "model": self.name, "choices": choices,
                "usage": {"prompt_tokens": len(ids), "completion_tokens": used, "total_tokens": len(ids) + used}}


def number(q: dict[str, Any], name: str, default: int, low: int, high: int) -> int:
    v = q.get(name)
    if v is None:
        return default
    if not isinstance(v, int) or isinstance(v, bool) or not low <= v <= high:
        raise Refused(f"{name}: want a whole number from {low} to {high}")
    return v


def answer(m: Model, path: str, q: dict[str, Any]) -> dict[str, Any]:
    if q.get("stream"):
        raise Refused("stream: this door answers whole replies only")
    if path == "/v1/completions":
        p = q.get("prompt", "")
        if isinstance(p, str):
            p = m.ids(p)
        elif not (isinstance(p, list) and all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < len(m.local.tok) for i in p)):
            raise Refused("prompt: want a text or its token ids")
        return m.complete(q, p)
    try:
        text = m.local.tok.apply_chat_template(q["messages"], tools=q.get("tools"), add_generation_prompt=True, tokenize=False)
    except Exception as e:  # a template raises what it likes
        raise Refused(f"messages: the model's template does not take them: {e}") from e
    got = m.complete({**q, "echo": False, "logprobs": 1, "max_tokens": q.get("max_completion_tokens", q.get("max_tokens", 256))}, m.ids(text))
    for c in got["choices"]:
        lp = c.pop("logprobs")
        c["message"] = {"role": "assistant", "content": c.pop("text")}
        c["logprobs"] = {"content": [{"token": t, "logprob": p, "bytes": None, "top_logprobs": []} for t, p in zip(lp["tokens"], lp["token_logprobs"])]} if q.get("logprobs") else None
    return {**got, "object": "chat.completion"}


def handler(m: Model) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def tell(self, status: int, body: dict[str, Any]) -> None:
            b = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(b)))
            self.end_headers()
            self.wfile.write(b)

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                return self.tell(200, {"object": "list", "data": [{"id": m.name, "object": "model", "owned_by": "agon"}]})
            self.tell(404, {"error": {"message": "no such route", "type": "not_found"}})

        def do_POST(self) -> None:
            try:
                n = int(self.headers.get("Content-Length") or 0)
                if not 0 <= n <= MOST:
                    self.close_connection = True
                    return self.tell(413, {"error": {"message": f"a request has at most {MOST} bytes", "type": "too_large"}})
                raw = self.rfile.read(n)
                if self.path not in ("/v1/completions", "/v1/chat/completions"):
                    return self.tell(404, {"error": {"message": "no such route", "type": "not_found"}})
                q = json.loads(raw)
                if not isinstance(q, dict):
                    raise Refused("want a JSON object")
                self.tell(200, answer(m, self.path, q))
            except (Refused, ValueError, KeyError, TypeError) as e:
                self.tell(400, {"error": {"message": str(e) or type(e).__name__, "type": "invalid_request_error"}})

    return Door


def main() -> None:
    p = argparse.ArgumentParser(prog="agon.door", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--listen", default="127.0.0.1:8000")
    p.add_argument("--threads", type=int, default=0)
    a = p.parse_args()
    host, _, port = a.listen.rpartition(":")
    m = Model(a.model, a.threads)
    s = ThreadingHTTPServer((host.strip("[]"), int(port)), handler(m))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=s.shutdown).start())
    print(json.dumps({"url": f"http://{host}:{s.server_address[1]}/v1", "model": m.name}), flush=True)
    try:
        s.serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
