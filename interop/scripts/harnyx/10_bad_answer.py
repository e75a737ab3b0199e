"""Returns a value of the wrong type, which is a fault of the script."""

from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    return {"text": "both", "output": {"a": 1}}
