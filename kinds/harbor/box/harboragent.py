"""Run an agent of Harbor's own form (BaseAgent, or an installed agent) in the box that it works in.

Standard input holds {"mode", "agent": "module:Class", "args": {...}, "dir", "layer", "workdir"}; mode "install" lets an installed agent install itself, below layer; mode "run",
which has "instruction", "servers", "skills_dir" and "done" too, plays it and makes the file done at the end. What Harbor calls the environment is this box: its commands are processes
here, as this user, whatever user they name, and files are copied.
"""
import asyncio
import importlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import typing
from pathlib import Path

if sys.version_info < (3, 12):  # Harbor is written for 3.12, and needs no more of it than this
    import typing_extensions

    typing.override, typing.TypedDict = typing_extensions.override, typing_extensions.TypedDict

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # prices are the gateway's business

job = json.load(sys.stdin)
sys.path.insert(0, job["dir"])

from harbor.agents.installed.base import BaseInstalledAgent  # noqa: E402
from harbor.environments.base import BaseEnvironment, ExecResult  # noqa: E402
from harbor.environments.capabilities import EnvironmentCapabilities  # noqa: E402
from harbor.models.agent.context import AgentContext  # noqa: E402
from harbor.models.task.config import EnvironmentConfig, MCPServerConfig, NetworkMode, NetworkPolicy  # noqa: E402
from harbor.models.trial.paths import TrialPaths  # noqa: E402

LOGS = Path("/logs" if job["mode"] == "run" else "/tmp/logs")
KEPT = 16 << 20  # bytes of each stream of a command


class Here(BaseEnvironment):
    """The box, as Harbor sees an environment."""

    @staticmethod
    def type() -> str:
        return "agon"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, mounted=True)

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        pass

    async def stop(self, delete: bool) -> None:
        pass

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:
        # Files, not pipes: what a command leaves running may keep its streams.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                p = await asyncio.create_subprocess_exec(
                    "bash", "-c", command, cwd=cwd or job["workdir"], env={**os.environ, **(self._merge_env(env) or {})},
                    stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                )
            except OSError as e:
                return ExecResult(stdout=None, stderr=str(e), return_code=126)
            try:
                code = await asyncio.wait_for(p.wait(), timeout_sec)
            except BaseException as e:  # also where the agent is cancelled
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except OSError:
                    pass
                await p.wait()
                if isinstance(e, (asyncio.TimeoutError, TimeoutError)):
                    raise TimeoutError(f"the command took longer than {timeout_sec} s") from None
                raise
            return ExecResult(stdout=text(out), stderr=text(err), return_code=code if code >= 0 else 128 - code)

    async def upload_file(self, source_path, target_path) -> None:
        copy(source_path, target_path)

    async def download_file(self, source_path, target_path) -> None:
        copy(source_path, target_path)

    async def upload_dir(self, source_dir, target_dir) -> None:
        copy(source_dir, target_dir)

    async def download_dir(self, source_dir, target_dir) -> None:
        copy(source_dir, target_dir)


def text(f) -> str:
    f.seek(0)
    return f.read(KEPT).decode("utf-8", "replace")


def copy(source, target) -> None:
    source, target = Path(source), Path(target)
    if target.exists() and source.resolve() == target.resolve():
        return
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def expanded(v):
    """An argument, with the box's variables in it."""
    if isinstance(v, str):
        return os.path.expandvars(v)
    if isinstance(v, list):
        return [expanded(x) for x in v]
    if isinstance(v, dict):
        return {k: expanded(x) for k, x in v.items()}
    return v


async def main() -> None:
    module, _, name = job["agent"].partition(":")
    made = getattr(importlib.import_module(module), name)
    installed = isinstance(made, type) and issubclass(made, BaseInstalledAgent)
    if job["mode"] == "install" and not installed:
        return
    if installed:
        os.environ["HOME"] = job["layer"]  # where it installed itself, and what it keeps for itself
    args = {k: expanded(v) for k, v in job["args"].items()}
    args.setdefault("logs_dir", LOGS / "agent")
    if model := os.environ.get("AGON_MODEL"):
        args.setdefault("model_name", "openai/" + model)
    args["logs_dir"] = Path(args["logs_dir"])
    if job.get("servers"):
        args.setdefault("mcp_servers", [MCPServerConfig.model_validate(s) for s in job["servers"]])
    if job.get("skills_dir"):
        args.setdefault("skills_dir", job["skills_dir"])
    agent = made(**args)
    agent.session_id = "agon__agent"
    box = Here(
        environment_dir=Path(job["workdir"]), environment_name="agon", session_id="agon__env", trial_paths=TrialPaths(LOGS),
        task_env_config=EnvironmentConfig(workdir=job["workdir"]), logger=logging.getLogger("harbor"),
        network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
    )
    with box.scoped_exec_env(dict(agent.extra_env or {})):
        if job["mode"] == "install":
            await agent.setup(box)
            return
        if installed:
            async def there(environment) -> None:
                """It is installed: the layer has it."""

            agent.install = there
        await agent.setup(box)
        context = AgentContext()
        await agent.run(job["instruction"], box, context)
    try:
        agent.populate_context_post_run(context)
    except Exception as e:  # what it says of itself is not its work
        print("harbor: the agent's own account of its run failed:", e)
    print("harbor:", agent.name(), agent.version() or "", context.model_dump_json(include={"n_input_tokens", "n_output_tokens", "n_cache_tokens", "cost_usd"}, exclude_none=True))


asyncio.run(main())
if job["mode"] == "run":
    open(job["done"], "w").close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of its libraries do not keep it
