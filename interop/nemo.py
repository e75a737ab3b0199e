"""Plays episodes through NeMo Gym's own agent: its SimpleAgent seeds a session, asks a scripted model server, calls the
tools and has the episode verified, over its own clients.

usage: nemo.py URL ANSWERS.json (task -> product ids, or "" where nothing answers). One JSON line: {rewards}.
"""
import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
from urllib.parse import urlsplit

import aiohttp
import uvicorn
from fastapi import FastAPI, Request

os.chdir(tempfile.mkdtemp())
from nemo_gym import global_config  # noqa: E402
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef  # noqa: E402
from nemo_gym.server_utils import BaseServerConfig, ServerClient  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig  # noqa: E402

url, answers = sys.argv[1], json.load(open(sys.argv[2]))
EPISODES = 10

model = FastAPI()


@model.post("/v1/responses")
async def responses(request: Request):
    body = await request.json()
    right = body["instructions"]  # the script knows the answer
    done = [i for i in body["input"] if i.get("type") == "function_call_output"]
    calls = [("find_product", {"q": "shoes"}), ("recommend_product", {"product_ids": right or "none"}), ("terminate", {"status": "success" if right else "failure"})]
    if not right:
        calls.pop(1)
    if len(done) < len(calls):
        name, args = calls[len(done)]
        item = {"type": "function_call", "id": f"fc_{len(done)}", "call_id": f"call_{len(done)}", "name": name, "arguments": json.dumps(args), "status": "completed"}
    else:
        item = {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
    return {"id": "resp", "object": "response", "created_at": 0, "model": "script", "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def serve(app) -> int:
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [s]}, daemon=True).start()
    return s.getsockname()[1]


def at(kind: str, host: str, port: int) -> dict:
    return {kind: {"impl": {"host": host, "port": port, "entrypoint": "app.py"}}}


async def main():
    env, port = urlsplit(url), serve(model)
    mine = socket.socket()
    mine.bind(("127.0.0.1", 0))
    config = OmegaConf.create({
        "shop": at("resources_servers", env.hostname, env.port), "script": at("responses_api_models", "127.0.0.1", port),
        "agent": at("responses_api_agents", "127.0.0.1", mine.getsockname()[1]),
        "head_server": {"host": "127.0.0.1", "port": 1}, "global_aiohttp_connector_limit": 100, "global_aiohttp_connector_limit_per_host": 100,
    })
    global_config._GLOBAL_CONFIG_DICT = config
    agent = SimpleAgent(
        config=SimpleAgentConfig(name="agent", host="127.0.0.1", port=mine.getsockname()[1], entrypoint="app.py",
                                 resources_server=ResourcesServerRef(type="resources_servers", name="shop"), model_server=ModelServerRef(type="responses_api_models", name="script")),
        server_client=ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=config),
    )
    server = uvicorn.Server(uvicorn.Config(agent.setup_webserver(), log_level="warning"))
    running = asyncio.create_task(server.serve(sockets=[mine]))
    while not server.started:
        await asyncio.sleep(0.05)
    rewards = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as client:
        for i, task in enumerate(list(answers)[:EPISODES]):
            row = {"responses_create_params": {"input": "shop", "instructions": answers[task] if i % 2 == 0 else "none", "tools": []}, "verifier_metadata": {"task": task}}
            async with client.post(f"http://127.0.0.1:{mine.getsockname()[1]}/run", json=row) as r:
                got = await r.json()
                assert r.status == 200, got
            assert got["verifier_metadata"] == {"task": task} and got["response"]["output"][0]["type"] == "function_call", got
            rewards.append(got["reward"])
    print(json.dumps({"nemo": {"rewards": rewards}}), flush=True)
    server.should_exit = True
    await running
    os._exit(0)  # the model's server runs on in its thread


asyncio.run(main())
