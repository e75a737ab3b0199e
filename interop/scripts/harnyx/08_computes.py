"""Lets written code compute, inside the SDK's own bounds."""

from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response
from harnyx_miner_sdk.safe_exec import SafeExecError, safe_exec


@entrypoint("query")
async def query(request: Query) -> Response:
    told = [safe_exec("result = [x * 2 for x in numbers]\nnumbers.append(9)", {"numbers": [1, 2, 3]})]
    for code, variables in (("x = 1", {}), ("result = {1, 2}", {}), ("result = 1", {"__x": 1}), ("result = 1", {"class": 1}), ("result = (", {}), ("result = float('nan')", {}), ("result = 1", {"result": 2}), (7, {})):
        try:
            told.append(safe_exec(code, variables))
        except SafeExecError:
            told.append("SafeExecError")
        except Exception as error:
            told.append(type(error).__name__)
    try:
        safe_exec("raise ValueError('mine')")
    except ValueError as error:
        told.append(str(error))
    return Response(output=told)
