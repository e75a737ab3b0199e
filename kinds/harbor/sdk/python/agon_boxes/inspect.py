"""agon's boxes as a sandbox of Inspect: `Task(..., sandbox="agon")`, or `sandbox=("agon", "NAME@sha256:…")` for an image by digest."""

from __future__ import annotations

import asyncio
import os
from pathlib import PurePosixPath
from typing import Any

from inspect_ai.util import ExecResult, SandboxEnvironment, sandboxenv
from inspect_ai.util import OutputLimitExceededError

from . import Box, BoxError, Client

_MAX_READ = int(os.environ.get("INSPECT_SANDBOX_MAX_READ_FILE_SIZE", 100 << 20))


@sandboxenv(name="agon")
class AgonSandbox(SandboxEnvironment):
    def __init__(self, box: Box) -> None:
        super().__init__()
        self.box = box

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        image = config if isinstance(config, str) else getattr(config, "image", "")
        return {"default": cls(await asyncio.to_thread(Client().create, image=image or ""))}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool) -> None:
        for e in environments.values():
            if isinstance(e, AgonSandbox):
                await asyncio.to_thread(e.box.close)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        data = input.encode() if isinstance(input, str) else input
        r = await asyncio.to_thread(self.box.exec, cmd, cwd=self._at(cwd or "."), env=env, user=user, timeout_sec=timeout, stdin=data)
        if r.limit == "wall":
            raise TimeoutError(f"the command took longer than {timeout} s")
        if r.return_code == 126 and "permission denied" in r.stderr.lower():
            raise PermissionError(r.stderr)
        return ExecResult(success=r.return_code == 0, returncode=r.return_code, stdout=r.stdout, stderr=r.stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        at = self._at(file)
        try:
            await asyncio.to_thread(self.box.write, at, contents.encode() if isinstance(contents, str) else contents)
        except BoxError as e:
            if (await asyncio.to_thread(self.box.exec, ["test", "-d", at])).return_code == 0:
                raise IsADirectoryError(at) from e
            raise PermissionError(str(e)) from e

    async def read_file(self, file: str, text: bool = True) -> str | bytes:  # type: ignore[override]
        at = self._at(file)
        try:
            b = await asyncio.to_thread(self.box.read, at)
        except BoxError as e:
            match e.code:
                case "not_found":
                    raise FileNotFoundError(at) from e
                case "wrong_type":
                    raise IsADirectoryError(at) from e
            raise PermissionError(str(e)) from e
        if len(b) > _MAX_READ:
            raise OutputLimitExceededError(limit_str=f"{_MAX_READ} bytes", truncated_output=None)
        return b.decode() if text else b

    def _at(self, path: str) -> str:
        return str(PurePosixPath(self.box.workdir) / path)
