"""Plays episodes through the trainers' own clients: OpenEnv's and ORS's, who loses an answer on the way.

usage: env.py URL ANSWERS.json (task -> product ids, or "" where nothing answers). One JSON line: what each earned.
"""
import asyncio
import json
import sys
from urllib.parse import urlsplit

url, answers = sys.argv[1], json.load(open(sys.argv[2]))
EPISODES = 10


async def openenv():
    from openenv.core.mcp_client import MCPToolClient
    from openenv.core.env_server.mcp_types import CallToolAction
    from openenv.core.generic_client import GenericEnvClient

    rewards = []
    async with GenericEnvClient(base_url=url) as env:
        for i in range(EPISODES):
            first = await env.reset(seed=i, index=i)
            task = first.observation["task"]
            call = lambda name, **a: env.step({"type": "call_tool", "tool_name": name, "arguments": a})
            await call("find_product", q=first.observation["prompt"][:60])
            right = answers[task] if i % 2 == 0 else "none"
            if right:
                await call("recommend_product", product_ids=right)
            last = await call("terminate", status="success" if right else "failure")
            assert last.done
            rewards.append(last.reward)
    async with MCPToolClient(base_url=url) as env:
        await env.reset(index=0)
        tools = [t.name for t in await env.list_tools()]
        assert "find_product" in tools, tools
        assert str(await env.call_tool("find_product", q="shoes")).startswith("[")
        done = await env.step(CallToolAction(tool_name="terminate", arguments={}))
        assert done.done and done.reward == 0, done
    return rewards


async def losing(lost):
    """A way to the server on which the rest of the answer to an episode's last call is lost, the first time; lost counts. Returns its URL."""
    at = urlsplit(url)

    async def pipe(reader, writer, cuts):
        while chunk := await reader.read(1 << 16):
            if cuts and not lost and b'"finished":true' in chunk:
                lost.append(1)
                chunk = chunk[: chunk.index(b"event: end")]
                writer.write(chunk)
                break
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def connected(reader, writer):
        r, w = await asyncio.open_connection(at.hostname, at.port)
        await asyncio.gather(pipe(reader, w, False), pipe(r, writer, True), return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ors():
    from openreward.api.environments.client import AsyncEnvironmentsAPI

    rewards, lost = [], []
    async with AsyncEnvironmentsAPI(base_url=await losing(lost), api_key="none") as api:
        env = api.get("agon/shopping", variant="shopping")
        assert await env.num_tasks("train") == len(answers)
        tasks = await env.list_tasks("train")
        for i in range(EPISODES):
            async with env.session(task=tasks[i]) as s:
                assert (await s.get_prompt())[0].text
                assert {t.name for t in await s.list_tools()} >= {"find_product", "terminate"}
                key = tasks[i].task_spec["key"]
                await s.call_tool("find_product", {"q": "shoes"})
                right = answers[key] if i % 2 == 0 else "none"
                if right:
                    await s.call_tool("recommend_product", {"product_ids": right})
                out = await s.call_tool("terminate", {"status": "success" if right else "failure"})
                assert out.finished
                rewards.append(out.reward)
    assert lost == [1], lost
    return rewards


out = {}
for name, play in (("openenv", openenv), ("ors", ors)):
    try:
        out[name] = {"rewards": asyncio.run(play())}
    except ImportError as e:
        out[name] = {"absent": str(e)}
print(json.dumps(out))
