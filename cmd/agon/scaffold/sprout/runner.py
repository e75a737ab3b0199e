"""Call agent_main once and leave what it returned as JSON.

Standard input holds {"agent": path, "result": path, "input": {...}}. What is raised ends the process with status 1 and a
traceback, which the miner finds in the run's output.
"""
import importlib.util
import json
import sys

job = json.load(sys.stdin)
spec = importlib.util.spec_from_file_location("agent", job["agent"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
answer = module.agent_main(job["input"])
with open(job["result"], "w") as f:
    json.dump(answer, f)
