"""Boxes of a machine that runs `agon box serve`. Standard library only.

    with Client().create(image="") as box:
        print(box.exec("echo hello").stdout)

AGON_BOXES_URL and AGON_BOXES_TOKEN, or AGON_BOXES_TOKEN_FILE, say where and who; `agon box serve` prints them.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import shutil
import tarfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit

__all__ = ["Box", "BoxError", "Client", "Result"]

#: What a command that reached its time ends with.
TIMED_OUT = 124


class BoxError(RuntimeError):
    """The server refused, or could not. `status` is HTTP's, `code` names the case."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Result:
    stdout: str
    stderr: str
    return_code: int
    limit: str = ""  # of the box, that ended the command: wall, memory, output
    truncated: bool = False
    ms: int = 0


class Client:
    """Safe for use by several threads: each request has a connection of its own."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        url = url or os.environ.get("AGON_BOXES_URL") or "http://127.0.0.1:8950"
        at = urlsplit(url)
        if at.scheme not in ("http", "https") or not at.hostname:
            raise ValueError(f"AGON_BOXES_URL {url!r} is not an http:// URL")
        self._at, self._prefix = at, at.path.rstrip("/")
        token = token or os.environ.get("AGON_BOXES_TOKEN")
        if not token and (file := os.environ.get("AGON_BOXES_TOKEN_FILE")):
            token = Path(file).read_text().strip()
        if not token:
            raise ValueError("no token: set AGON_BOXES_TOKEN or AGON_BOXES_TOKEN_FILE, which `agon box serve` prints")
        self._token = token

    def create(self, name: str = "", **spec: Any) -> "Box":
        """A box: image, workdir, env, cpus, memory_mb, storage_mb. The same name asked for again is the same box."""
        body = {"name": name or "box-" + uuid.uuid4().hex, **{k: v for k, v in spec.items() if v is not None}}
        while True:
            try:
                return Box(self, self.json("POST", "/v1/boxes", body))
            except BoxError as e:
                if e.code != "too_many":
                    raise
                time.sleep(2)  # another box has to be closed first

    def json(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with self.request(method, path, data, "application/json") as r:
            text = r.read()
        return json.loads(text) if text else None

    def request(self, method: str, path: str, body: bytes | BinaryIO | None = None, kind: str = "application/octet-stream", length: int | None = None):
        c = (http.client.HTTPSConnection if self._at.scheme == "https" else http.client.HTTPConnection)(self._at.hostname, self._at.port)
        head = {"Authorization": "Bearer " + self._token, "Content-Type": kind}
        if length is not None:
            head["Content-Length"] = str(length)
        try:
            c.request(method, self._prefix + path, body, head)
            r = c.getresponse()
        except BaseException:
            c.close()
            raise
        if r.status >= 400:
            try:
                p = json.loads(r.read(1 << 20))
            except ValueError:
                p = {}
            c.close()
            raise BoxError(r.status, p.get("code", ""), p.get("detail", f"status {r.status}"))
        return _Reply(c, r)


class _Reply:
    def __init__(self, c: http.client.HTTPConnection, r: http.client.HTTPResponse) -> None:
        self._c, self._r = c, r

    def __enter__(self) -> http.client.HTTPResponse:
        return self._r

    def __exit__(self, *_: object) -> None:
        self._c.close()


class Box:
    """A box. Commands are its root user, who is nobody on the machine."""

    def __init__(self, client: Client, shown: Mapping[str, Any]) -> None:
        self.client = client
        self.id: str = shown["id"]
        self.workdir: str = shown["workdir"]
        self.driver: str = shown["driver"]
        self._path = "/v1/boxes/" + quote(self.id, safe="")

    def exec(
        self,
        command: str | Sequence[str],
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout_sec: float | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        """Run a line of the shell, or words."""
        body: dict[str, Any] = {"command": command} if isinstance(command, str) else {"args": list(command)}
        body |= {"cwd": cwd or "", "env": dict(env or {}), "user": user, "timeout_sec": timeout_sec or 0}
        if stdin is not None:
            body["stdin"] = base64.b64encode(stdin).decode()
        return Result(**self.client.json("POST", self._path + "/exec", body))

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        with self.client.request("PUT", self._at("file", path, mode=f"{mode:o}"), data):
            pass

    def read(self, path: str) -> bytes:
        with self.client.request("GET", self._at("file", path)) as r:
            return r.read()

    def upload(self, source: str | Path, target: str) -> None:
        """A file with its mode, or what a directory holds."""
        source = Path(source)
        if not source.is_dir():
            with source.open("rb") as f, self.client.request(
                "PUT", self._at("file", target, mode=f"{source.stat().st_mode & 0o777:o}"), f, length=source.stat().st_size
            ):
                return
        buf = io.BytesIO()

        def plain(m: tarfile.TarInfo) -> tarfile.TarInfo | None:
            m.uid = m.gid = 0
            m.uname = m.gname = ""
            return None if m.isdev() else m

        with tarfile.open(fileobj=buf, mode="w") as t:
            for child in sorted(source.iterdir()):
                t.add(child, arcname=child.name, filter=plain)
        with self.client.request("PUT", self._at("tree", target), buf.getvalue(), "application/x-tar"):
            pass

    def download(self, source: str, target: str | Path) -> None:
        """A file."""
        target = Path(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with self.client.request("GET", self._at("file", source)) as r, target.open("wb") as f:
            shutil.copyfileobj(r, f)

    def download_tree(self, source: str, target: str | Path) -> None:
        """What a directory holds. Nothing is written outside target; links out of it and devices are left out."""
        Path(target).mkdir(parents=True, exist_ok=True)
        with self.client.request("GET", self._at("tree", source)) as r, tarfile.open(fileobj=r, mode="r|") as t:
            for m in t:
                try:
                    m = tarfile.data_filter(m, str(target))
                except tarfile.FilterError:
                    continue
                if m is not None and not m.isdev():
                    t.extract(m, target, filter="data")

    def close(self) -> None:
        with self.client.request("DELETE", self._path):
            pass

    def __enter__(self) -> "Box":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, what: str, path: str, **query: str) -> str:
        return f"{self._path}/{what}?" + urlencode({"path": path, **query})
