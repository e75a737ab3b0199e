# Runs agent_main on one problem and writes the episode, as one frame, to the
# pipe that stands in place of stdout. All of this runs beside the agent:
# nothing it says is believed, only read.
import importlib.util
import json
import math
import os
import resource
import sys
import time

import agon_warm


def _finite(v):
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(v, float):
        return v if math.isfinite(v) else None
    if isinstance(v, dict):
        return {k: _finite(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [_finite(x) for x in v]
    return v


def _encode(v):
    try:
        return json.dumps(v, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return json.dumps(_finite(v), allow_nan=False, ensure_ascii=False)


def _fill(dialogue, problem, took):
    """Adds what a step lacks; what the agent set stays."""
    now = int(time.time() * 1000)
    for i, step in enumerate(dialogue):
        if not isinstance(step, dict):
            raise TypeError(f"step {i + 1} of the episode is {type(step).__name__}, not an object")
        info = step.setdefault("extra_info", {})
        if not isinstance(info, dict):
            raise TypeError(f"extra_info of step {i + 1} is {type(info).__name__}, not an object")
        info.setdefault("step", i + 1)
        info.setdefault("query", problem.get("query"))
        info.setdefault("timestamp", now)
        info.setdefault("problem_id", problem.get("problem_id"))
        if i == 0:
            info.setdefault("execution_time", took)


def _play(path, problem):
    name = f"user_agent_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses look their own module up.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    main = getattr(module, "agent_main", None)
    if not callable(main):
        raise AttributeError("the agent defines no function agent_main")
    start = time.monotonic()
    dialogue = main(problem)
    if not isinstance(dialogue, list):
        return None
    _fill(dialogue, problem, time.monotonic() - start)
    return dialogue


def _write(fd, body):
    frame = b"agon-episode %d\n%s\n" % (len(body), body)
    view = memoryview(frame)
    while view:
        view = view[os.write(fd, view):]


def _ahead():
    """Import what agents begin with. Done once for many boxes, it costs none of them anything."""
    import dataclasses, datetime, logging, random, re, typing, uuid  # noqa: E401, F401

    import requests  # noqa: F401
    import src.agent.agent_interface
    import src.agent.proxy_client
    import ujson  # noqa: F401


def main():
    if agon_warm.waits():
        _ahead()
    agon_warm.wait()
    job = json.load(sys.stdin)
    fd = os.dup(1)
    os.dup2(2, 1)  # what the agent prints is its log
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    nofile = 1024 if nofile == resource.RLIM_INFINITY else min(1024, nofile)
    resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
    os.environ["PROBLEM_DATA"] = json.dumps(job["problem"])
    out = {"status": "SUCCESS", "error": None, "dialogue": None}
    try:
        out["dialogue"] = _play(job["agent"], job["problem"])
        body = _encode(out)
    except BaseException as e:  # noqa: B036, SystemExit is the agent's failure too
        try:
            text = str(e)
        except Exception:
            text = ""
        body = _encode({"status": "FAILED", "error": {"type": type(e).__name__, "message": text[:4000]}, "dialogue": None})
    _write(fd, body.encode("utf-8", "replace"))
    sys.stderr.flush()
    os._exit(0)  # threads of the agent do not keep the problem open
