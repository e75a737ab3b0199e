"""Call agent_main once, in the work directory. What it leaves there is the work.

Standard input holds {"agent": path, "done": path, "input": {...}}; done is made once agent_main has returned. What is raised ends the process with status 1 and a traceback, which the
miner finds in the run's output.
"""
import asyncio
import importlib.util
import inspect
import json
import sys

job = json.load(sys.stdin)
spec = importlib.util.spec_from_file_location("agent", job["agent"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
answer = module.agent_main(job["input"])
if inspect.isawaitable(answer):
    async def wait():
        return await answer
    asyncio.run(wait())
open(job["done"], "w").close()
