"""Load an agent, call agent_main once and leave what came of it in a file.

Started by the kind in the agent's box as `python3 -u -c <this file>`; its text is an argument, so nothing in the box can
change it. Standard input holds one JSON object {"agent": path, "result": path, "input": {...}}.

Everything here runs beside the agent's own code, so the word it leaves is the agent's word: it names what happened for
the miner and moves no blame. The file's first line is one of the outcomes of kind/coding, the second a detail, the rest
is the patch, byte for byte.
"""
import importlib.util
import inspect
import json
import os
import sys
import traceback


def main():
    job = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.path[:] = [os.path.dirname(job["agent"])] + [p for p in sys.path if p]
    sys.argv = [job["agent"]]

    def leave(outcome, detail="", patch=b""):
        line = " ".join(str(detail).split())[:500]
        text = outcome + "\n" + line.encode("utf-8", "replace").decode("utf-8") + "\n"
        temporary = job["result"] + ".part"
        with open(temporary, "wb") as f:
            f.write(text.encode("utf-8") + patch)
        os.replace(temporary, job["result"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads that the agent left do not keep the box

    def told(error):
        traceback.print_exc()
        return "%s: %s" % (type(error).__name__, error)

    try:
        spec = importlib.util.spec_from_file_location("agent", job["agent"])
        module = importlib.util.module_from_spec(spec)
        sys.modules["agent"] = module
        spec.loader.exec_module(module)
        agent_main = getattr(module, "agent_main", None)
        if not callable(agent_main):
            leave("load_error", "agent.py defines no function agent_main")
    except SystemExit as e:
        leave("exited", "SystemExit(%s) while the file was loaded" % (e.code,))
    except BaseException as e:
        leave("load_error", told(e))
    try:
        result = agent_main(job["input"])
    except SystemExit as e:
        leave("exited", "SystemExit(%s)" % (e.code,))
    except BaseException as e:
        leave("raised", told(e))
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        close = getattr(result, "close", None)
        if close:
            close()
        leave("invalid", "agent_main returned a %s; it must be an ordinary function" % type(result).__name__)
    if isinstance(result, dict):
        if "patch" not in result:
            leave("invalid", 'the returned dict has no key "patch"')
        result = result["patch"]
        if not isinstance(result, str):
            leave("invalid", '"patch" is %s, not a string' % type(result).__name__)
    if not isinstance(result, str):
        leave("invalid", 'agent_main returned %s, not a string or a dict with "patch"' % type(result).__name__)
    if not result.strip():
        leave("empty")
    try:
        patch = result.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        leave("invalid", "the patch holds text that cannot be encoded")
    leave("ok", "", patch)


main()
