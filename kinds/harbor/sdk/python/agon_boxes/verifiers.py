"""agon's boxes as a runtime of verifiers (verifiers.v1):

    from agon_boxes.verifiers import AgonConfig, AgonRuntime
    runtime = AgonRuntime(AgonConfig(image=""))
    await runtime.start()

`install()` makes `type: agon` known to `make_runtime`.
"""

from __future__ import annotations

import asyncio
import shlex
from pathlib import PurePosixPath
from typing import Literal

from pydantic_config import BaseConfig
from verifiers.v1 import runtimes
from verifiers.v1.errors import SandboxError
from verifiers.v1.runtimes.base import BaseRuntimeInfo, ProgramResult, Runtime, register

from . import Box, BoxError, Client


class AgonConfig(BaseConfig):
    type: Literal["agon"] = "agon"
    image: str = ""
    """By digest; the machine's own tree without one."""
    workdir: str = "/app"
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None


class AgonRuntimeInfo(AgonConfig, BaseRuntimeInfo):
    pass


class AgonRuntime(Runtime):
    supports_user = True

    def __init__(self, config: AgonConfig, name: str | None = None) -> None:
        super().__init__(name)
        self.config, self.info = config, AgonRuntimeInfo(**config.model_dump())
        self._box: Box | None = None
        register(self)

    async def start(self) -> None:
        c = self.config
        try:
            self._box = await asyncio.to_thread(
                Client().create, name=self.name, image=c.image, workdir=c.workdir, cpus=c.cpus, memory_mb=c.memory_mb, storage_mb=c.storage_mb
            )
        except BoxError as e:
            raise SandboxError(str(e)) from e
        self.info.id = self._box.id

    def _there(self) -> Box:
        if self._box is None:
            raise SandboxError("the runtime is not started")
        return self._box

    async def run(self, argv: list[str], env: dict[str, str]) -> ProgramResult:
        try:
            r = await asyncio.to_thread(self._there().exec, argv, env=self.process_env(env), user=self.user)
        except BoxError as e:
            raise SandboxError(str(e)) from e
        return ProgramResult(exit_code=r.return_code, stdout=r.stdout, stderr=r.stderr)

    async def run_background(self, argv: list[str], env: dict[str, str], log: str) -> None:
        line = f"nohup {shlex.join(argv)} >{shlex.quote(self._at(log))} 2>&1 </dev/null &"
        r = await self.run(["sh", "-c", line], env)
        if r.exit_code != 0:
            raise SandboxError(f"start {argv[0]}: {r.stderr[-500:]}")

    async def _read(self, path: str, max_bytes: int | None = None) -> bytes:
        if max_bytes is not None:  # bounded in the box
            return await super()._read(self._at(path), max_bytes)
        try:
            return await asyncio.to_thread(self._there().read, self._at(path))
        except BoxError as e:
            raise SandboxError(f"read {path!r}: {e}") from e

    async def write(self, path: str, data: bytes) -> None:
        try:
            await asyncio.to_thread(self._there().write, self._at(path), data)
        except BoxError as e:
            raise SandboxError(f"write {path!r}: {e}") from e

    def _at(self, path: str) -> str:
        return str(PurePosixPath(self._there().workdir) / path)

    def cleanup(self) -> None:
        if self._box is not None:
            box, self._box = self._box, None
            box.close()


def install() -> None:
    """Let `make_runtime` and `provision_runtime` make agon's runtimes."""
    others = runtimes._runtime_cls
    runtimes._runtime_cls = lambda config: AgonRuntime if config.type == "agon" else others(config)
