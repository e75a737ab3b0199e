"""agon's boxes as an environment of Harbor, without Docker:

    harbor run -p TASK -a oracle --environment-import-path agon_boxes.harbor:AgonEnvironment

A box has no network, whatever a task asks for, but the door that `agon box serve --door URL` gives all boxes. Package managers and downloads are answered by tools that do nothing
(`--ek tools=false` leaves them out). The task's image is `[environment] docker_image` by digest; without one the machine's own tree stands in for what the Dockerfile names in FROM, and
WORKDIR, ENV, COPY and RUN are done in the box.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import require_agent_environment_definition, should_use_prebuilt_docker_image

from . import Box, BoxError, Client

_PINNED = re.compile(r"(^|@)sha256:[0-9a-f]{64}$")


class AgonEnvironment(BaseEnvironment):
    def __init__(self, *args: Any, url: str | None = None, tools: bool | str = True, **kwargs: Any) -> None:
        self._url, self._box, self._workdir = url, None, ""
        self._tools = str(tools).lower() not in ("false", "0", "no")
        self._image_env: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "agon"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities | None:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True, fractional_cpus=True)

    @classmethod
    def preflight(cls) -> None:
        try:
            Client().json("GET", "/v1/boxes")
        except (ValueError, OSError, BoxError) as e:
            raise SystemExit(f"agon's boxes do not answer: {e}. Start them with `agon box serve`.") from None

    def _validate_definition(self) -> None:
        require_agent_environment_definition(self.environment_dir, docker_image=self.task_env_config.docker_image)
        for name in ("docker-compose.yaml", "docker-compose.yml"):
            if (self.environment_dir / name).exists():
                raise ValueError(f"agon's boxes are one machine each: {name} names several containers")

    async def start(self, force_build: bool) -> None:
        conf = self.task_env_config
        image, steps = "", []
        if should_use_prebuilt_docker_image(self.environment_dir, docker_image=conf.docker_image, force_build=force_build):
            if not _PINNED.search(conf.docker_image):
                raise ValueError(f"docker_image {conf.docker_image!r} names no digest: write NAME@sha256:… (`agon image import` prints it)")
            image = conf.docker_image
        elif (dockerfile := self.environment_dir / "Dockerfile").exists():
            steps = list(_steps(dockerfile.read_text()))
        if not self._network_disabled:
            self.logger.warning("agon's boxes have no network; the task asks for %s", self._network_policy.network_mode.value)
        self._box = await asyncio.to_thread(
            Client(self._url).create,
            name=re.sub(r"[^A-Za-z0-9_.-]", "-", self.session_id)[:128],
            image=image,
            workdir=conf.workdir or "",
            cpus=self._effective_cpus,
            memory_mb=self._effective_memory_mb,
            storage_mb=self._effective_storage_mb,
        )
        self._workdir = conf.workdir or self._box.workdir
        for n, word, rest in steps:
            await self._step(n, word, rest, fixed=bool(conf.workdir))
        await self.ensure_dirs(["/logs/agent", "/logs/verifier", "/logs/artifacts"], chmod=True)
        await self._upload_environment_dir_after_start()

    async def _step(self, n: int, word: str, rest: str, fixed: bool) -> None:
        """One line of a Dockerfile."""
        match word:
            case "WORKDIR":
                at = str(PurePosixPath(self._workdir) / rest)
                if not fixed:
                    self._workdir = at
                await self._must(n, f"mkdir -p {shlex.quote(at)}")
            case "ENV":
                pairs = shlex.split(rest)
                if pairs and "=" not in pairs[0]:
                    pairs = [pairs[0] + "=" + rest.split(None, 1)[1]]
                for p in pairs:
                    k, _, v = p.partition("=")
                    self._image_env[k] = re.sub(r"\$\{?(\w+)\}?", lambda m: self._image_env.get(m[1], ""), v)
            case "RUN":
                line = " ".join(map(shlex.quote, json.loads(rest))) if rest.startswith("[") else rest
                await self._must(n, line)
            case "COPY" | "ADD":
                if "--from=" in rest:
                    self.logger.warning("Dockerfile line %d: files of another image are left out", n)
                    return
                words = [w for w in (json.loads(rest) if rest.startswith("[") else shlex.split(rest)) if not w.startswith("--")]
                *sources, to = words
                at = str(PurePosixPath(self._workdir) / to)
                for s in sources:
                    src = (self.environment_dir / s).resolve()
                    if not src.is_relative_to(self.environment_dir.resolve()) or not src.exists():
                        raise FileNotFoundError(f"Dockerfile line {n}: {s} is not below {self.environment_dir}")
                    if src.is_dir():
                        await self.upload_dir(src, at)
                    else:
                        await self.upload_file(src, at + "/" + src.name if to.endswith(("/", ".")) or len(sources) > 1 else at)

    async def _must(self, n: int, line: str) -> None:
        r = await self.exec(line, user="root", timeout_sec=int(self.task_env_config.build_timeout_sec or 600))
        if r.return_code != 0:
            raise RuntimeError(f"Dockerfile line {n} ended with {r.return_code}: {(r.stderr or r.stdout or '')[-500:]} (boxes have no network: build it with `agon image build` and name the image)")

    async def stop(self, delete: bool) -> None:
        if self._box is not None:
            box, self._box = self._box, None
            await asyncio.to_thread(box.close)

    def _there(self) -> Box:
        if self._box is None:
            raise RuntimeError("the environment is not started")
        return self._box

    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None, timeout_sec: int | None = None, user: str | int | None = None
    ) -> ExecResult:
        merged = {**self._image_env, **(self._merge_env(env) or {})}
        if not self._tools:
            command = 'PATH="${PATH#/opt/agon/tools:}"; ' + command
        r = await asyncio.to_thread(
            self._there().exec, command, cwd=cwd or self._workdir, env=merged, user=self._resolve_user(user), timeout_sec=timeout_sec
        )
        if r.limit == "wall" and timeout_sec:
            raise TimeoutError(f"the command took longer than {timeout_sec} s")
        return ExecResult(stdout=r.stdout, stderr=r.stderr, return_code=r.return_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await asyncio.to_thread(self._there().upload, source_path, str(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await asyncio.to_thread(self._there().upload, source_dir, str(target_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await asyncio.to_thread(self._there().download, str(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(self._there().download_tree, str(source_dir), target_dir)


def _steps(text: str):
    """The instructions of the last stage that do something, by line."""
    out: list[tuple[int, str, str]] = []
    line, start = "", 0
    for n, row in enumerate(text.splitlines(), 1):
        row = row.strip()
        if not line:
            start = n
        if not row or row.startswith("#"):
            continue
        if row.endswith("\\"):
            line += row[:-1] + " "
            continue
        word, _, rest = (line + row).partition(" ")
        line = ""
        if word.upper() == "FROM":
            out = []
        elif word.upper() in ("WORKDIR", "ENV", "RUN", "COPY", "ADD"):
            out.append((start, word.upper(), rest.strip()))
    return out
