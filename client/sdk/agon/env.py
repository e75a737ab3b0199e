"""A client of `agon env serve`, over its ORS routes, with the standard library only.

    with Client("http://127.0.0.1:8010") as env:
        task = env.tasks()[0]
        with env.open(task.key, seed=7) as play:
            play.call("find_product", {"q": "red shoes"})
            print(play.call("terminate", {}).reward)

The wire is in docs/environments.md. A Client may be used by one thread at a time;
Clients of one server by any number of threads.
"""

from __future__ import annotations

import http.client
import json
import uuid
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit


class EnvError(Exception):
    """The server refused or broke off. `code` is its word, `status` the HTTP status (0: none came)."""

    def __init__(self, message: str, code: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(frozen=True)
class Task:
    """What a policy is told of a task."""

    key: str
    prompt: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A tool as models are told of it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]

    def function(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's `tools`."""
        return {"type": "function", "function": {"name": self.name, "description": self.description, "parameters": self.schema}}


@dataclass(frozen=True)
class Reply:
    """The answer to a call. `reward` is a number from 0 to 1 when `done`, else None."""

    text: str
    refused: bool = False
    done: bool = False
    reward: float | None = None
    fields: dict[str, float] = field(default_factory=dict)


class Client:
    """A connection to an environment server."""

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        at = urlsplit(url)
        if at.scheme != "http" or not at.hostname:
            raise ValueError(f"{url}: want http://HOST:PORT")
        self._http = http.client.HTTPConnection(at.hostname, at.port or 80, timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, body: Any = None, session: str = "", named: bool = False) -> bytes:
        """One request. It is made once more where the server had closed the connection, and, if `named`, where the
        answer was lost: the server gives the same answer then."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if session:
            headers["X-Session-ID"] = session
        for again in (False, True):
            fresh = self._http.sock is None
            try:
                self._http.request(method, path, data, headers)
                r = self._http.getresponse()
                got = r.read()
                break
            except (http.client.HTTPException, OSError) as e:
                self._http.close()
                if again or (fresh and not named) or isinstance(e, TimeoutError):
                    raise EnvError(f"{method} {path}: {e or type(e).__name__}") from e
        if r.status >= 400:
            try:
                said = json.loads(got)
            except ValueError:
                said = {}
            raise EnvError(f"{method} {path}: {said.get('detail', r.reason)}", said.get("code", ""), r.status)
        return got

    def tasks(self) -> list[Task]:
        """Every task that is served, in the server's order."""
        n = json.loads(self.request("POST", "/num_tasks", {"split": "train"}))["num_tasks"]
        out: list[Task] = []
        while len(out) < n:
            got = json.loads(self.request("POST", "/task_range", {"split": "train", "start": len(out), "stop": n}))["tasks"]
            if not got:
                raise EnvError(f"the server has {n} tasks and lists {len(out)}")
            out += [Task(t["key"], t["prompt"], t.get("meta") or {}) for t in got]
        return out

    def tools(self) -> list[Tool]:
        return [Tool(t["name"], t["description"], t["input_schema"]) for t in json.loads(self.request("GET", "/tools"))["tools"]]

    def open(self, key: str, seed: int = 0) -> Play:
        """Begins an episode of a task."""
        sid = uuid.uuid4().hex
        self.request("POST", "/create", {"task_spec": {"key": key}, "seed": seed}, sid)
        return Play(self, sid)

    def run(self, key: str, base_url: str, model: str, api_key: str = "", seed: int = 0, sampling: dict[str, float] | None = None) -> dict[str, Any]:
        """Plays the server's own agent on a task, with the model at `base_url` (OpenAI's chat completions). `reward` is its
        score, `samples` the calls as `token_ids`, `mask` and `logprobs`. EnvError is no reward: leave the episode out.
        The answer comes when the agent has ended: give the Client a timeout as long as its tasks take."""
        body = {"task": key, "seed": seed, "client": {"base_url": base_url, "model": model, "api_key": api_key}, "sampling": sampling or {}}
        out: dict[str, Any] = json.loads(self.request("POST", "/run", body))
        return out


class Play:
    """An episode. Closing it twice does nothing."""

    def __init__(self, client: Client, session: str) -> None:
        self._client, self.session = client, session
        self.last: Reply | None = None  # that ended it

    def __enter__(self) -> Play:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def call(self, tool: str, args: dict[str, Any]) -> Reply:
        """Carries out a call. What a policy says wrongly is answered with `refused`; EnvError is ours."""
        raw = self._client.request("POST", "/call", {"name": tool, "input": args, "task_id": uuid.uuid4().hex}, self.session, named=True).decode()
        data = [line[6:] for line in raw.splitlines() if line.startswith("data: ")]
        got = json.loads(data[-1])
        if not got["ok"]:
            if got.get("reason") == "episode_finished":
                raise EnvError(got["error"], "episode_finished")
            return Reply(got["error"], refused=True)
        out = got["output"]
        reply = Reply("".join(b.get("text", "") for b in out["blocks"]), False, bool(out["finished"]), out["reward"], out.get("metadata") or {})
        if reply.done:
            self.last = reply
        return reply

    def close(self) -> None:
        if self.session:
            session, self.session = self.session, ""
            self._client.request("POST", "/delete", {}, session)
