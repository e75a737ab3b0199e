"""The HTTP client of the tool host.

It speaks HTTP/1.1 over asyncio streams and starts no thread: a script's
process may not. Names are resolved before the script is confined.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import socket
from typing import Any, Mapping, Sequence
from urllib.parse import urlsplit

from .models import ToolCallResponse, wrap

#: Seconds that one call may take.
TIMEOUT = 30.0
_MAX_REPLY = 64 << 20
_MAX_HEAD = 64 << 10
_MAX_DETAIL = 500


class ToolInvocationError(RuntimeError):
    """A tool call failed. ``status`` is the HTTP status, None without one."""

    def __init__(self, message: str, status: int | None = None, detail: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail


class ToolClient:
    """Calls tools for one session."""

    def __init__(self, base_url: str, token: str, session_id: str, timeout: float = TIMEOUT) -> None:
        """base_url is the tool host's; a name in it is resolved here. ValueError if it is not an http URL."""
        url = urlsplit(base_url)
        if url.scheme != "http" or not url.hostname or url.username or url.query or url.fragment:
            raise ValueError("the tool host's address is not an http:// URL")
        self._host = url.netloc
        self._port = url.port or 80
        self._address = _address(url.hostname, self._port)
        self._path = url.path.rstrip("/") + "/v1/tools/execute"
        for value in (token, session_id):
            if not value.isascii() or not value.isprintable():
                raise ValueError("the session's token or id cannot stand in a header")
        self._token, self._session, self._timeout = token, session_id, timeout

    async def call(self, tool: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> ToolCallResponse:
        """Call a tool. ToolInvocationError if it, or the way to it, fails."""
        body = json.dumps({"tool": tool, "args": list(args), "kwargs": dict(kwargs or {})}, separators=(",", ":")).encode()
        try:
            async with asyncio.timeout(self._timeout):
                status, reply = await self._post(body)
        except TimeoutError:
            raise ToolInvocationError(f"tool invocation timed out after {self._timeout}s") from None
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError) as e:
            raise ToolInvocationError(f"tool invocation failed: {type(e).__name__}") from e
        if not 200 <= status < 300:
            raise self._refused(status, reply)
        try:
            answer = json.loads(reply)
        except (ValueError, RecursionError):
            raise ToolInvocationError("tool invocation failed: the answer is not JSON", status) from None
        if not isinstance(answer, dict) or "receipt_id" not in answer or "response" not in answer:
            raise ToolInvocationError("tool invocation failed: the answer is not a receipt", status)
        return wrap(answer, ToolCallResponse)

    @staticmethod
    def _refused(status: int, reply: bytes) -> ToolInvocationError:
        detail: Any = reply.decode("utf-8", "replace")
        try:
            decoded = json.loads(reply)
            if isinstance(decoded, dict) and "detail" in decoded:
                detail = decoded["detail"]
        except (ValueError, RecursionError):
            pass
        text = detail if isinstance(detail, str) else repr(detail)
        return ToolInvocationError(f"tool invocation failed with {status}: {text[:_MAX_DETAIL]}", status, detail)

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(self._address, self._port, limit=_MAX_HEAD)
        try:
            head = (
                f"POST {self._path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
                f"x-caster-token: {self._token}\r\nx-caster-session-id: {self._session}\r\n"
                f"x-platform-token: {self._token}\r\nx-session-id: {self._session}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode("ascii") + body)
            await writer.drain()
            status, headers = parse_head(await reader.readuntil(b"\r\n\r\n"))
            if headers.get("transfer-encoding", "").lower() == "chunked":
                return status, await self._chunks(reader)
            if "content-length" in headers:
                length = int(headers["content-length"])
                if not 0 <= length <= _MAX_REPLY:
                    raise ValueError("the answer is too long")
                return status, await reader.readexactly(length)
            reply = await reader.read(_MAX_REPLY + 1)
            if len(reply) > _MAX_REPLY:
                raise ValueError("the answer is too long")
            return status, reply
        finally:
            writer.close()

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        out = bytearray()
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            if not 0 <= size <= _MAX_REPLY - len(out):
                raise ValueError("the answer is too long")
            if size == 0:
                return bytes(out)
            out += (await reader.readexactly(size + 2))[:-2]


def _address(host: str, port: int) -> str:
    """Resolve a name. An address needs no resolver, which would read files and import codecs, milliseconds in a fresh process."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return host
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Split the head of an HTTP answer into status and headers, names in lower case."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1."):
        raise ValueError("not an HTTP answer")
    headers = {}
    for line in lines[1:]:
        name, sep, value = line.partition(":")
        if sep:
            headers[name.strip().lower()] = value.strip()
    return int(parts[1]), headers


_client: contextvars.ContextVar[ToolClient | None] = contextvars.ContextVar("agon_tool_client", default=None)


def bind(client: ToolClient | None) -> None:
    """Let the tool functions of this context call through client."""
    _client.set(client)


def current() -> ToolClient:
    """The client of this context. RuntimeError if there is none."""
    client = _client.get()
    if client is None:
        raise RuntimeError("no tool invoker bound in this context")
    return client
