"""Tools for verl that are carried out by a tool server.

Put the directory of this file on PYTHONPATH and name verl_tools.yaml as
actor_rollout_ref.rollout.multi_turn.tool_config_path. AGON_TOOLS_URL is where the
tools are served: each call is one POST of its arguments, as a JSON object, to
AGON_TOOLS_URL/NAME; the body of the answer is what the model sees.
"""

import asyncio
import json
import os
import urllib.error
import urllib.request
from uuid import uuid4

from verl.tools.base_tool import BaseTool

try:
    from verl.tools.schemas import ToolResponse
except ImportError:  # before verl 0.6 an answer was plain text
    ToolResponse = None

MOST = 1 << 20  # bytes of an answer


class ServedTool(BaseTool):
    """One tool by its schema."""

    def get_openai_tool_schema(self):
        return self.tool_schema

    async def create(self, instance_id=None, **kwargs):
        instance_id = instance_id or str(uuid4())
        return instance_id if ToolResponse is None else (instance_id, ToolResponse())

    async def execute(self, instance_id, parameters, **kwargs):
        text, failed = await asyncio.to_thread(self._call, parameters)
        answer = text if ToolResponse is None else ToolResponse(text=text)
        return answer, 0.0, {"failed": failed}

    def _call(self, parameters):
        url = (self.config.get("url") or os.environ["AGON_TOOLS_URL"]).rstrip("/") + "/" + self.name
        request = urllib.request.Request(url, data=json.dumps(parameters).encode(), headers={"Content-Type": "application/json"}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=float(self.config.get("timeout", 60))) as reply:
                return reply.read(MOST).decode("utf-8", "replace"), 0
        except (urllib.error.URLError, OSError) as e:
            return f"error: {e}", 1

    async def calc_reward(self, instance_id, **kwargs):
        return 0.0

    async def release(self, instance_id, **kwargs):
        return None
