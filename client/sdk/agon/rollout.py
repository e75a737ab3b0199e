"""Plays many episodes at once with a model that runs in this process (transformers).

Every token that the model says is kept with its log-probability as it was sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .env import Client, EnvError, Task
from .policy import Trace, dialect


@dataclass
class Sampling:
    """How plays are sampled. Temperature 0 takes the likeliest token."""

    temperature: float = 1.0
    top_p: float = 1.0
    turn_tokens: int = 512  # at most in one turn
    max_tokens: int = 16384  # of a whole play
    turns: int = 24
    batch: int = 64
    seed: int = 0  # another one draws other tokens


class Local:
    """A model and tokenizer of a directory."""

    def __init__(self, directory: str, threads: int = 0) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if threads:
            torch.set_num_threads(threads)
        self.directory = directory
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tok = AutoTokenizer.from_pretrained(directory)
        self.net = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16 if self.device == "cuda" else torch.float32).to(self.device).eval()

    def say(self, prompts: Sequence[list[int]], s: Sampling, stop: list[int]) -> list[tuple[list[int], list[float]]]:
        """Continues each prompt by one turn: its tokens, the one that ends it among them, and their log-probabilities."""
        import torch

        pad = self.tok.pad_token_id if self.tok.pad_token_id is not None else stop[0]
        n = max(len(p) for p in prompts)
        ids = torch.tensor([[pad] * (n - len(p)) + p for p in prompts], device=self.device)
        seen = torch.tensor([[0] * (n - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        kw: dict[str, Any] = {"do_sample": False} if s.temperature == 0 else {"do_sample": True, "temperature": s.temperature, "top_p": s.top_p, "top_k": 0}
        with torch.no_grad():
            out = self.net.generate(input_ids=ids, attention_mask=seen, max_new_tokens=s.turn_tokens, eos_token_id=stop, pad_token_id=pad,
                                    return_dict_in_generate=True, output_logits=True, **kw)
        new = out.sequences[:, n:]
        logp = torch.stack([torch.log_softmax(x.float(), -1).gather(1, new[:, i : i + 1])[:, 0] for i, x in enumerate(out.logits)], 1)
        result = []
        for row, lp in zip(new.tolist(), logp.tolist()):
            end = next((i + 1 for i, t in enumerate(row) if t in stop), len(row))
            result.append((row[:end], lp[:end]))
        return result


def play(policy: Local, url: str, tasks: Sequence[tuple[Task, int]], s: Sampling, progress: Callable[[int, int], None] | None = None) -> list[Trace]:
    """Plays each (task, seed) once and returns the traces in their order. An episode that the policy leaves without an answer is ended by
    `terminate` where the environment has it, and counts 0."""
    import torch

    done: list[Trace] = []
    with Client(url) as client:
        tools = client.tools()
        ends = any(t.name == "terminate" for t in tools)
        for at in range(0, len(tasks), s.batch):
            part = list(tasks[at : at + s.batch])
            torch.manual_seed(s.seed * 7_919 + part[0][1] * 1_000_003 + at)
            traces = [Trace(t.key, seed) for t, seed in part]
            plays = [client.open(t.key, seed) for t, seed in part]
            forms = [dialect(policy.directory, policy.tok) for _ in part]
            for x, f, (t, _) in zip(traces, forms, part):
                x.told(f.begin(t, tools))
            live = list(range(len(part)))
            while live:
                said = policy.say([traces[i].ids for i in live], s, forms[0].stop)
                still = []
                for i, (ids, logp) in zip(live, said):
                    x = traces[i]
                    x.said(ids, logp)
                    x.turns += 1
                    text = policy.tok.decode(ids[:-1] if ids and ids[-1] in forms[i].stop else ids, skip_special_tokens=True)
                    try:
                        calls, told, last = forms[i].act(text, plays[i])
                    except EnvError as e:
                        if e.code != "episode_finished":
                            raise
                        calls, told, last = [], "", plays[i].last
                    x.calls += calls
                    if last is None and (not told or x.turns >= s.turns):
                        x.why = "turns" if told else "silent"
                        if ends:
                            last = plays[i].call("terminate", {})
                    elif last is None:
                        x.told(forms[i].answer(told))
                        if len(x.ids) + s.turn_tokens <= s.max_tokens:
                            still.append(i)
                            continue
                        x.why = "cut"
                        if ends:
                            last = plays[i].call("terminate", {})
                    x.reward, x.fields, x.why = (last.reward or 0.0, last.fields, x.why or "done") if last else (0.0, {}, x.why)
                    plays[i].close()
                live = still
            done += traces
            if progress:
                progress(len(done), len(tasks))
    return done
